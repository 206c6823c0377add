#include "backend/conformance/scenarios.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/encoding.h"

namespace onggi::backend {
namespace {

RelPath at(std::string_view text) {
  return RelPath::parse(text).value();
}

template <typename T>
void expect_code(const T& result, ErrorCode code) {
  ASSERT_FALSE(result.has_value()) << "succeeded";
  EXPECT_EQ(to_string(result.error().code()), to_string(code)) << result.error().message();
}

std::unique_ptr<Folder> new_folder(Backend& backend) {
  const FolderId id{Uuid::random(), Uuid::random()};
  EXPECT_TRUE(backend.create_folder(id, 0775));
  return backend.open_folder(id).value();
}

Status append(StagedFile& staged, std::string_view text) {
  while (!text.empty()) {
    const auto buffer = staged.buffer();
    const std::size_t count = std::min(buffer.size(), text.size());
    std::copy_n(as_bytes(text).begin(), count, buffer.begin());
    RETURN_IF_ERROR(staged.commit_buffer(count));
    text.remove_prefix(count);
  }
  return {};
}

Result<FileInfo> put(Folder& folder, std::string_view path, std::string_view text,
                     const CommitOptions& options = {}) {
  ASSIGN_OR_RETURN(const auto staged, folder.stage(Uuid::random(), true, text.size()));
  RETURN_IF_ERROR(append(*staged, text));
  auto info = staged->commit(at(path), options);
  if (!info) RETURN_IF_ERROR(staged->discard());
  return info;
}

std::string get(Folder& folder, std::string_view path) {
  const auto handle = folder.open(at(path));
  if (!handle) return "error: " + handle.error().message();
  std::string text((*handle)->info().size_bytes, '\0');
  const auto count = (*handle)->read(0, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(count.value(), text.size());
  return text;
}

std::vector<std::string> names(const ListPage& page) {
  std::vector<std::string> out;
  for (const Entry& entry : page.entries) out.push_back(entry.path);
  return out;
}

using Names = std::vector<std::string>;

void makes_and_removes_folders(Backend& backend) {
  const FolderId id{Uuid::random(), Uuid::random()};
  const FolderId sibling{id.quota_scope, Uuid::random()};
  expect_code(backend.open_folder(id), ErrorCode::not_found);
  ASSERT_TRUE(backend.create_folder(id, 0775));
  ASSERT_TRUE(backend.create_folder(sibling, 0775));
  expect_code(backend.create_folder(id, 0775), ErrorCode::already_exists);
  auto listed = backend.list_folders().value();
  std::sort(listed.begin(), listed.end());
  auto expected = std::vector{id, sibling};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(listed, expected);
  ASSERT_TRUE(put(*backend.open_folder(id).value(), "a/b/c", "x"));
  ASSERT_TRUE(backend.remove_folder(id));
  expect_code(backend.remove_folder(id), ErrorCode::not_found);
  expect_code(backend.open_folder(id), ErrorCode::not_found);
  EXPECT_TRUE(backend.open_folder(sibling));
  EXPECT_TRUE(backend.recover());
}

void keeps_what_was_put(Backend& backend) {
  const auto folder = new_folder(backend);
  for (const std::size_t size : {0UL, 1UL, 4096UL, 100'000UL, 20UL << 20}) {
    std::string text(size, 'x');
    for (std::size_t i = 0; i < size; i += 97) text[i] = static_cast<char>(i);
    const auto info = put(*folder, "dir/file", text);
    ASSERT_TRUE(info) << info.error().message();
    EXPECT_EQ(info->size_bytes, size);
    EXPECT_TRUE(get(*folder, "dir/file") == text) << size;
  }
  const auto handle = folder->open(at("dir/file")).value();
  std::array<std::byte, 8> buffer{};
  EXPECT_EQ(handle->read((20UL << 20) - 3, buffer).value(), 3U);
  EXPECT_EQ(handle->read(1UL << 40, buffer).value(), 0U);
}

void is_invisible_until_committed(Backend& backend) {
  const auto folder = new_folder(backend);
  const auto staged = folder->stage(Uuid::random(), true, 0).value();
  ASSERT_TRUE(append(*staged, "hidden"));
  ASSERT_TRUE(staged->flush());
  EXPECT_TRUE(folder->list(RelPath(), {.recursive = true})->entries.empty());
  EXPECT_EQ(folder->usage()->files, 0U);
  ASSERT_TRUE(staged->commit(at("f"), {}));
  EXPECT_EQ(get(*folder, "f"), "hidden");
}

void resumes_a_staged_file(Backend& backend) {
  const auto folder = new_folder(backend);
  const Uuid upload = Uuid::random();
  expect_code(folder->stage(upload, false, 0), ErrorCode::not_found);
  {
    const auto staged = folder->stage(upload, true, 100).value();
    ASSERT_TRUE(append(*staged, "one two"));
    ASSERT_TRUE(staged->flush());
  }
  const auto staged = folder->stage(upload, false, 100).value();
  EXPECT_EQ(staged->size(), 7U);
  ASSERT_TRUE(staged->truncate(4));
  ASSERT_TRUE(append(*staged, "three"));
  std::string read(5, '\0');
  EXPECT_EQ(staged->read(4, std::as_writable_bytes(std::span(read))).value(), 5U);
  EXPECT_EQ(read, "three");
  ASSERT_TRUE(staged->commit(at("f"), {}));
  EXPECT_EQ(get(*folder, "f"), "one three");
  expect_code(folder->stage(upload, false, 0), ErrorCode::not_found);
}

void collects_abandoned_staging(Backend& backend) {
  const auto folder = new_folder(backend);
  const Uuid kept = Uuid::random();
  const Uuid orphan = Uuid::random();
  for (const Uuid& id : {kept, orphan}) {
    ASSERT_TRUE(folder->stage(id, true, 0).value()->flush());
  }
  EXPECT_EQ(folder->collect_staging({kept}, UnixTime()).value(), 0U) << "too young";
  const UnixTime future(std::chrono::hours(24 * 365 * 200));
  EXPECT_EQ(folder->collect_staging({kept}, future).value(), 1U);
  EXPECT_TRUE(folder->stage(kept, false, 0));
  expect_code(folder->stage(orphan, false, 0), ErrorCode::not_found);
}

void honours_preconditions(Backend& backend) {
  const auto folder = new_folder(backend);
  const auto first = put(*folder, "f", "1", {.if_absent = true}).value();
  expect_code(put(*folder, "f", "2", {.if_absent = true}), ErrorCode::condition_failed);
  EXPECT_EQ(get(*folder, "f"), "1");
  const auto second = put(*folder, "f", "22", {.if_etag = first.etag});
  ASSERT_TRUE(second);
  EXPECT_NE(second->etag, first.etag);
  expect_code(put(*folder, "f", "3", {.if_etag = first.etag}), ErrorCode::condition_failed);
  expect_code(put(*folder, "new", "3", {.if_etag = first.etag}), ErrorCode::condition_failed);
  expect_code(put(*folder, "no/parent", "3", {.create_parents = false}), ErrorCode::not_found);
  EXPECT_EQ(folder->stat(at("f"))->etag, second->etag);
  EXPECT_EQ(get(*folder, "f"), "22");
}

void lets_one_of_many_writers_win(Backend& backend) {
  const auto folder = new_folder(backend);
  const auto base = put(*folder, "f", "0").value();
  std::atomic<int> created = 0;
  std::atomic<int> replaced = 0;
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      if (put(*folder, "new", std::to_string(i), {.if_absent = true})) ++created;
      if (put(*folder, "f", std::to_string(i), {.if_etag = base.etag})) ++replaced;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(created, 1);
  EXPECT_EQ(replaced, 1);
}

// As when a cache of open vfolders has dropped one that is still in use.
void holds_preconditions_whoever_opened_the_folder(Backend& backend) {
  const FolderId id{Uuid::random(), Uuid::random()};
  ASSERT_TRUE(backend.create_folder(id, 0775));
  const std::array folders = {backend.open_folder(id).value(), backend.open_folder(id).value()};
  auto etag = put(*folders[0], "f", "0")->etag;
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> replaced = 0;
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        Folder& folder = *folders[i % folders.size()];
        if (put(folder, "f", std::to_string(i), {.if_etag = etag, .durable = false})) ++replaced;
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(replaced, 1);
    etag = folders[1]->stat(at("f"))->etag;
  }
}

void commits_once_however_often_asked(Backend& backend) {
  const auto folder = new_folder(backend);
  const auto staged = folder->stage(Uuid::random(), true, 4).value();
  ASSERT_TRUE(append(*staged, "text"));
  const CommitOptions options{.if_absent = true};
  const auto first = staged->commit(at("d/f"), options);
  ASSERT_TRUE(first);
  const auto second = staged->commit(at("d/f"), options);
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_EQ(second->etag, first->etag);
  EXPECT_EQ(get(*folder, "d/f"), "text");
  EXPECT_TRUE(staged->discard()) << "which leaves what was committed";
  EXPECT_EQ(get(*folder, "d/f"), "text");
}

void takes_every_name_that_passes_the_door(Backend& backend) {
  const auto folder = new_folder(backend);
  const Names all = {
      std::string(255, 'n'), "a b", "sub/.upload/f", "가/나.txt", "...", "-rf", "a\\b", "*"};
  for (const std::string& path : all) {
    ASSERT_TRUE(put(*folder, path, path)) << path;
    EXPECT_EQ(get(*folder, path), path);
  }
  EXPECT_EQ(folder->usage()->files, all.size());
}

void refuses_to_confuse_files_and_directories(Backend& backend) {
  const auto folder = new_folder(backend);
  ASSERT_TRUE(put(*folder, "d/f", "x"));
  expect_code(put(*folder, "d", "x"), ErrorCode::conflict);
  expect_code(put(*folder, "d/f/below", "x"), ErrorCode::invalid_argument);
  expect_code(folder->open(at("d")), ErrorCode::invalid_argument);
  expect_code(folder->open(RelPath()), ErrorCode::invalid_argument);
  expect_code(folder->list(at("d/f"), {}), ErrorCode::invalid_argument);
  expect_code(folder->list(at("missing"), {}), ErrorCode::not_found);
  expect_code(folder->stat(at("missing")), ErrorCode::not_found);
  expect_code(folder->open(at("missing/f")), ErrorCode::not_found);
  expect_code(put(*folder, "", "x"), ErrorCode::invalid_argument);
  EXPECT_EQ(folder->stat(RelPath())->kind, FileKind::directory);
}

void makes_directories(Backend& backend) {
  const auto folder = new_folder(backend);
  expect_code(folder->make_directory(at("a/b"), false), ErrorCode::not_found);
  ASSERT_TRUE(folder->make_directory(at("a/b"), true));
  expect_code(folder->make_directory(at("a/b"), true), ErrorCode::already_exists);
  expect_code(folder->make_directory(RelPath(), true), ErrorCode::already_exists);
  EXPECT_EQ(folder->stat(at("a/b"))->kind, FileKind::directory);
}

void moves(Backend& backend) {
  const auto folder = new_folder(backend);
  ASSERT_TRUE(put(*folder, "a/f", "f"));
  ASSERT_TRUE(put(*folder, "g", "g"));
  ASSERT_TRUE(folder->move(at("a"), at("x/y"), {}));
  EXPECT_EQ(get(*folder, "x/y/f"), "f");
  expect_code(folder->stat(at("a")), ErrorCode::not_found);
  expect_code(folder->move(at("g"), at("x/y/f"), {}), ErrorCode::already_exists);
  ASSERT_TRUE(folder->move(at("g"), at("x/y/f"), {.replace = true}));
  EXPECT_EQ(get(*folder, "x/y/f"), "g");
  expect_code(folder->move(at("x"), at("x/y/z"), {}), ErrorCode::invalid_argument);
  expect_code(folder->move(at("missing"), at("new/dir"), {}), ErrorCode::not_found);
  expect_code(folder->stat(at("new")), ErrorCode::not_found);
  ASSERT_TRUE(put(*folder, "h", "h"));
  expect_code(folder->move(at("h"), at("x"), {.replace = true}), ErrorCode::conflict);
  expect_code(folder->move(at("h"), RelPath(), {}), ErrorCode::invalid_argument);
  expect_code(folder->move(RelPath(), at("r"), {}), ErrorCode::invalid_argument);
}

void removes(Backend& backend) {
  const auto folder = new_folder(backend);
  ASSERT_TRUE(put(*folder, "d/e/f", "x"));
  expect_code(folder->remove(at("d"), false), ErrorCode::conflict);
  ASSERT_TRUE(folder->remove(at("d/e/f"), false));
  ASSERT_TRUE(folder->remove(at("d/e"), false));
  ASSERT_TRUE(put(*folder, "d/1/2/3/4", "x"));
  ASSERT_TRUE(folder->remove(at("d"), true));
  expect_code(folder->remove(at("d"), true), ErrorCode::not_found);
  expect_code(folder->remove(RelPath(), true), ErrorCode::invalid_argument);
  EXPECT_EQ(folder->usage()->directories, 0U);
}

void lists_in_pages(Backend& backend) {
  const auto folder = new_folder(backend);
  for (int i = 0; i < 25; ++i) ASSERT_TRUE(put(*folder, fmt::format("n{:02}", i), "x"));
  Names seen;
  ListOptions options{.limit = 10};
  for (int page_number = 0; page_number < 3; ++page_number) {
    const auto page = folder->list(RelPath(), options).value();
    EXPECT_EQ(page.more, page_number < 2);
    for (const std::string& name : names(page)) seen.push_back(name);
    options.after = seen.back();
  }
  ASSERT_EQ(seen.size(), 25U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

// Whole paths decide, so that a page's last path is enough to go on: "a.b" is between "a" and "a/".
void lists_recursively_in_the_order_of_paths(Backend& backend) {
  const auto folder = new_folder(backend);
  for (const char* path : {"a/x", "a/y/z", "a.b", "a-b", "a0", "b"}) {
    ASSERT_TRUE(put(*folder, path, "x"));
  }
  const Names all = {"a", "a-b", "a.b", "a/x", "a/y", "a/y/z", "a0", "b"};
  EXPECT_EQ(names(*folder->list(RelPath(), {.recursive = true})), all);
  for (std::size_t size = 1; size < 4; ++size) {
    Names seen;
    ListOptions options{.limit = size, .recursive = true};
    for (bool more = true; more;) {
      const auto page = folder->list(RelPath(), options).value();
      for (const std::string& name : names(page)) seen.push_back(name);
      options.after = seen.back();
      more = page.more;
    }
    EXPECT_EQ(seen, all) << "pages of " << size;
  }
  EXPECT_EQ(names(*folder->list(at("a"), {.recursive = true})), (Names{"x", "y", "y/z"}));
  EXPECT_EQ(names(*folder->list(RelPath(), {})), (Names{"a", "a-b", "a.b", "a0", "b"}));
}

// Names whose bytes lie on both sides of '/', in trees by a fixed seed.
void lists_any_tree_in_the_order_of_paths(Backend& backend) {
  const auto folder = new_folder(backend);
  std::uint64_t state = 20261201;
  const auto draw = [&](std::size_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(state >> 33U) % below;
  };
  std::set<std::string> expected;
  for (int i = 0; i < 60; ++i) {
    RelPath path;
    for (std::size_t depth = 1 + draw(4); depth > 0; --depth) {
      std::string name;
      for (std::size_t length = 1 + draw(2); length > 0; --length) name += "!-.0a~"[draw(6)];
      if (name == "." || name == "..") name = "a";
      path = path.join(name);
    }
    if (!folder->make_directory(path, true)) continue;
    for (; !path.is_root(); path = path.parent()) expected.insert(path.text());
  }
  Names seen;
  ListOptions options{.limit = 7, .recursive = true};
  for (bool more = true; more;) {
    const auto page = folder->list(RelPath(), options).value();
    for (const std::string& name : names(page)) seen.push_back(name);
    options.after = seen.back();
    more = page.more;
  }
  EXPECT_EQ(seen, Names(expected.begin(), expected.end()));
}

void counts_usage_exactly(Backend& backend) {
  const auto folder = new_folder(backend);
  ASSERT_TRUE(put(*folder, "a/b", std::string(1000, 'x')));
  ASSERT_TRUE(put(*folder, "c", std::string(234, 'x')));
  const auto usage = folder->usage().value();
  EXPECT_EQ(usage.size_bytes, 1234U);
  EXPECT_EQ(usage.files, 2U);
  EXPECT_EQ(usage.directories, 1U);
}

void reads_on_what_was_opened(Backend& backend) {
  const auto folder = new_folder(backend);
  ASSERT_TRUE(put(*folder, "f", "old"));
  const auto handle = folder->open(at("f")).value();
  ASSERT_TRUE(put(*folder, "f", "new"));
  std::string text(3, '\0');
  ASSERT_TRUE(handle->read(0, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "old");
  ASSERT_TRUE(folder->remove(at("f"), false));
  EXPECT_EQ(handle->read(0, std::as_writable_bytes(std::span(text))).value(), 3U);
}

void commits_a_group_and_syncs_it(Backend& backend) {
  const auto folder = new_folder(backend);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(put(*folder, fmt::format("d{}/f", i), "x", {.durable = false}));
  }
  ASSERT_TRUE(folder->sync());
  EXPECT_EQ(folder->usage()->files, 20U);
}

}  // namespace

std::vector<Scenario> scenarios() {
  return {
      {"makes_and_removes_folders", makes_and_removes_folders},
      {"keeps_what_was_put", keeps_what_was_put},
      {"is_invisible_until_committed", is_invisible_until_committed},
      {"resumes_a_staged_file", resumes_a_staged_file},
      {"collects_abandoned_staging", collects_abandoned_staging},
      {"honours_preconditions", honours_preconditions},
      {"lets_one_of_many_writers_win", lets_one_of_many_writers_win},
      {"holds_preconditions_whoever_opened_the_folder",
       holds_preconditions_whoever_opened_the_folder},
      {"commits_once_however_often_asked", commits_once_however_often_asked},
      {"takes_every_name_that_passes_the_door", takes_every_name_that_passes_the_door},
      {"refuses_to_confuse_files_and_directories", refuses_to_confuse_files_and_directories},
      {"makes_directories", makes_directories},
      {"moves", moves},
      {"removes", removes},
      {"lists_in_pages", lists_in_pages},
      {"lists_recursively_in_the_order_of_paths", lists_recursively_in_the_order_of_paths},
      {"lists_any_tree_in_the_order_of_paths", lists_any_tree_in_the_order_of_paths},
      {"counts_usage_exactly", counts_usage_exactly},
      {"reads_on_what_was_opened", reads_on_what_was_opened},
      {"commits_a_group_and_syncs_it", commits_a_group_and_syncs_it},
  };
}

}  // namespace onggi::backend
