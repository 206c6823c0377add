#include "client/local_tree.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "client/remote_url.h"

namespace onggi::client {

namespace {

constexpr std::size_t kDepthMax = 512;

struct DirCloser {
  void operator()(DIR* dir) const { closedir(dir); }
};

struct Walk {
  const std::string& root;
  const CancelCheck& cancelled;
  LocalTree& tree;
};

Status visit(const Walk& walk, const std::string& path, std::size_t depth);

Status visit_entry(const Walk& walk, int directory, const std::string& path, const char* name,
                   std::size_t depth) {
  struct stat info{};
  if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return {};  // gone meanwhile
  if (S_ISDIR(info.st_mode)) return visit(walk, path, depth + 1);
  if (S_ISREG(info.st_mode)) {
    if (path.ends_with(kPartSuffix)) return {};
    const std::int64_t modified_ms =
        std::int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
    walk.tree.files.push_back({path, static_cast<std::uint64_t>(info.st_size), modified_ms});
    return {};
  }
  walk.tree.warnings.push_back(fmt::format(
      "{}: left out, {}", path, S_ISLNK(info.st_mode) ? "a symbolic link" : "not a regular file"));
  return {};
}

Status visit(const Walk& walk, const std::string& path, std::size_t depth) {
  if (walk.cancelled && walk.cancelled()) return fail(ErrorCode::cancelled, "interrupted");
  if (depth > kDepthMax) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: more than {} directories deep", path, kDepthMax));
  }
  const std::unique_ptr<DIR, DirCloser> dir(opendir(join_path(walk.root, path).c_str()));
  if (!dir) {
    if (path.empty()) return fail_errno(walk.root);
    walk.tree.warnings.push_back(
        fmt::format("{}: left out, {}", path, error_from_errno(errno, "open").message()));
    return {};
  }
  bool empty = true;
  // One stream, one thread: readdir is safe.
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe)
    const std::string name = std::data(entry->d_name);
    if (name == "." || name == "..") continue;
    empty = false;
    RETURN_IF_ERROR(
        visit_entry(walk, dirfd(dir.get()), join_path(path, name), name.c_str(), depth));
  }
  if (empty && !path.empty()) walk.tree.empty_directories.push_back(path);
  return {};
}

}  // namespace

Result<LocalTree> walk_tree(const std::string& root, const CancelCheck& cancelled) {
  LocalTree tree;
  RETURN_IF_ERROR(visit({root, cancelled, tree}, "", 0));
  std::ranges::sort(tree.files, {}, &LocalFile::path);
  std::ranges::sort(tree.empty_directories);
  return tree;
}

}  // namespace onggi::client
