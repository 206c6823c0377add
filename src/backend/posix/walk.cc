#include "backend/posix/walk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/posix/beneath.h"

namespace onggi::backend {
namespace {

constexpr std::size_t kDepthMax = 512;

// Renamed or removed while we look: as if it had never been there.
bool is_gone(const Error& error) {
  return error.code() == ErrorCode::not_found || error.code() == ErrorCode::invalid_argument;
}

struct Name {
  std::string text;
  bool directory = false;
};

// All names in a directory, in no order.
Result<std::vector<Name>> read_names(int directory, bool hide_staging) {
  FileDescriptor fd(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno("open a directory");
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), &::closedir);
  if (!stream) return fail_errno("open a directory");
  fd.release();
  std::vector<Name> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (hide_staging && name == kStagingDirectory) continue;
    bool is_directory = entry->d_type == DT_DIR;
    if (entry->d_type == DT_UNKNOWN) {
      const auto info = stat_name(::dirfd(stream.get()), entry->d_name);
      is_directory = info && info->kind == FileKind::directory;
    }
    names.push_back({std::string(name), is_directory});
  }
  if (errno != 0) return fail_errno("read a directory");
  return names;
}

Result<FileDescriptor> enter(int directory, const std::string& name) {
  FileDescriptor fd(
      ::openat(directory, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return fail_errno(name);
  return fd;
}

// Goes through a directory in the order of whole paths. What lies below "a" sorts as "a/", which is
// after "a.txt": so a directory is two items, its entry and its content.
class Lister {
 public:
  explicit Lister(const ListOptions& options) : options_(options) {}

  Status visit(int directory, const std::string& prefix, std::size_t depth) {
    if (depth > kDepthMax) {
      return fail(ErrorCode::too_large,
                  fmt::format("more than {} levels of directories", kDepthMax));
    }
    ASSIGN_OR_RETURN(auto items, items_of(directory, prefix, depth == 0));
    for (const Item& item : items) {
      if (page_.more) break;
      if (item.content) {
        auto below = enter(directory, item.name);
        if (!below && is_gone(below.error())) continue;
        if (!below) return tl::unexpected(std::move(below).error());
        RETURN_IF_ERROR(visit(below->get(), prefix + item.name + '/', depth + 1));
      } else {
        RETURN_IF_ERROR(add(directory, item.name, prefix + item.name));
      }
    }
    return {};
  }

  ListPage take() { return std::move(page_); }

 private:
  struct Item {
    std::string name;
    bool content = false;  // then its key is the name and a '/'
  };

  static bool key_less(const Item& a, const Item& b) {
    const std::size_t common = std::min(a.name.size(), b.name.size());
    if (const int order = std::memcmp(a.name.data(), b.name.data(), common); order != 0) {
      return order < 0;
    }
    // Of the longer name its next byte counts, of the other its '/' or its end.
    if (a.name.size() == b.name.size()) return !a.content && b.content;
    if (a.name.size() < b.name.size()) return !a.content || '/' < byte_at(b.name, common);
    return b.content && byte_at(a.name, common) < '/';
  }

  static unsigned char byte_at(const std::string& text, std::size_t index) {
    return static_cast<unsigned char>(text[index]);
  }

  Result<std::vector<Item>> items_of(int directory, const std::string& prefix, bool top) const {
    ASSIGN_OR_RETURN(auto names, read_names(directory, top));
    std::vector<Item> items;
    items.reserve(names.size());
    for (Name& name : names) {
      if (options_.recursive && name.directory && content_wanted(prefix + name.text + '/')) {
        items.push_back({name.text, true});
      }
      if (options_.after.empty() || prefix + name.text > options_.after) {
        items.push_back({std::move(name.text), false});
      }
    }
    // One more than a page is all that can be shown of one directory.
    const std::size_t wanted = options_.limit - page_.entries.size() + 1;
    if (!options_.recursive && items.size() > wanted) {
      const auto cut = items.begin() + static_cast<std::ptrdiff_t>(wanted);
      std::partial_sort(items.begin(), cut, items.end(), key_less);
      items.erase(cut, items.end());
    } else {
      std::sort(items.begin(), items.end(), key_less);
    }
    return items;
  }

  // Whether anything that starts with `prefix` sorts after the last path of the page before.
  bool content_wanted(const std::string& prefix) const {
    return options_.after.starts_with(prefix) || prefix > options_.after;
  }

  Status add(int directory, const std::string& name, std::string path) {
    if (page_.entries.size() == options_.limit) {
      page_.more = true;
      return {};
    }
    auto info = stat_name(directory, name);
    if (!info && is_gone(info.error())) return {};
    if (!info) return tl::unexpected(std::move(info).error());
    page_.entries.push_back({std::move(path), *std::move(info)});
    return {};
  }

  const ListOptions& options_;
  ListPage page_;
};

std::uint64_t allocated(const struct stat& s) {
  return static_cast<std::uint64_t>(s.st_blocks) * 512;
}

class Counter {
 public:
  Status count_root(int root) {
    struct stat s{};
    if (::fstat(root, &s) != 0) return fail_errno("stat");
    usage_.structure_allocated_bytes += allocated(s);
    return {};
  }

  Status visit(int directory, std::size_t depth) {
    if (depth > kDepthMax) {
      return fail(ErrorCode::too_large,
                  fmt::format("more than {} levels of directories", kDepthMax));
    }
    ASSIGN_OR_RETURN(const auto names, read_names(directory, depth == 0));
    for (const Name& name : names) {
      struct stat s{};
      if (::fstatat(directory, name.text.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) continue;
        return fail_errno(name.text);
      }
      if (S_ISDIR(s.st_mode)) {
        ++usage_.directories;
        usage_.directory_bytes += static_cast<std::uint64_t>(s.st_size);
        usage_.structure_allocated_bytes += allocated(s);
        auto below = enter(directory, name.text);
        if (!below && is_gone(below.error())) continue;
        if (!below) return tl::unexpected(std::move(below).error());
        RETURN_IF_ERROR(visit(below->get(), depth + 1));
      } else {
        count(s);
      }
    }
    return {};
  }

  const Usage& usage() const { return usage_; }

 private:
  void count(const struct stat& s) {
    if (S_ISLNK(s.st_mode)) {
      ++usage_.symlinks;
      usage_.symlink_bytes += static_cast<std::uint64_t>(s.st_size);
      usage_.structure_allocated_bytes += allocated(s);
      return;
    }
    ++usage_.files;
    if (s.st_nlink > 1 && !seen_.emplace(s.st_dev, s.st_ino).second) return;
    usage_.size_bytes += static_cast<std::uint64_t>(s.st_size);
    usage_.allocated_bytes += allocated(s);
  }

  Usage usage_;
  std::set<std::pair<dev_t, ino_t>> seen_;  // of files with several links
};

}  // namespace

Result<ListPage> list_directory(int root, const RelPath& path, const ListOptions& options) {
  ASSIGN_OR_RETURN(const FileDescriptor directory, open_beneath(root, path, O_PATH | O_DIRECTORY));
  Lister lister(options);
  // Depth 1 for others than the root: only there is ".upload" ours.
  RETURN_IF_ERROR(lister.visit(directory.get(), "", path.is_root() ? 0 : 1));
  return lister.take();
}

Result<Usage> count_usage(int root) {
  Counter counter;
  RETURN_IF_ERROR(counter.count_root(root));
  RETURN_IF_ERROR(counter.visit(root, 0));
  return counter.usage();
}

}  // namespace onggi::backend
