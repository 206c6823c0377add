#include "backend/memory/memory_folder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace onggi::backend {
namespace {

constexpr std::size_t kBufferBytes = 64 << 10;

tl::unexpected<Error> missing(const RelPath& path) {
  return fail(ErrorCode::not_found, path.text() + ": No such file or directory");
}

bool is_below(std::string_view path, const RelPath& directory) {
  return directory.is_root() ||
         (path.size() > directory.text().size() && path.starts_with(directory.text()) &&
          path[directory.text().size()] == '/');
}

std::size_t read_at(const MemoryTree::Content& content, std::uint64_t offset,
                    std::span<std::byte> buffer) {
  if (offset >= content.size()) return 0;
  const std::size_t count = std::min<std::uint64_t>(buffer.size(), content.size() - offset);
  std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset), count, buffer.begin());
  return count;
}

// Operations on a tree whose mutex is held.
class LockedTree {
 public:
  explicit LockedTree(MemoryTree& tree) : tree_(tree) { tree_.mutex.lock(); }
  ~LockedTree() { tree_.mutex.unlock(); }
  LockedTree(const LockedTree&) = delete;
  LockedTree& operator=(const LockedTree&) = delete;
  LockedTree(LockedTree&&) = delete;
  LockedTree& operator=(LockedTree&&) = delete;

  MemoryTree* operator->() { return &tree_; }

  MemoryTree::Node* find(const RelPath& path) {
    const auto found = tree_.nodes.find(path.text());
    return found == tree_.nodes.end() ? nullptr : &found->second;
  }

  FileInfo new_info(FileKind kind, std::uint64_t size) {
    const UnixTime now = tree_.clock.now();
    const std::int64_t now_ns = std::chrono::nanoseconds(now.time_since_epoch()).count();
    return {.kind = kind,
            .size_bytes = size,
            .modified = now,
            .modified_ns = now_ns,
            .changed_ns = now_ns,
            .mode = kind == FileKind::directory ? 0775U : 0644U,
            .etag = fmt::format("m{:x}", ++tree_.version)};
  }

  Status require_directory(const RelPath& path) {
    if (path.is_root()) return {};
    const auto* node = find(path);
    if (node == nullptr) return missing(path);
    if (node->info.kind == FileKind::directory) return {};
    return fail(ErrorCode::invalid_argument, path.text() + ": Not a directory");
  }

  Status make_directories(const RelPath& path) {
    if (path.is_root()) return {};
    if (find(path) != nullptr) return require_directory(path);
    RETURN_IF_ERROR(make_directories(path.parent()));
    tree_.nodes[path.text()] = {new_info(FileKind::directory, 0), nullptr};
    return {};
  }

 private:
  MemoryTree& tree_;
};

class MemoryReadHandle final : public ReadHandle {
 public:
  explicit MemoryReadHandle(MemoryTree::Node node) : node_(std::move(node)) {}
  const FileInfo& info() const override { return node_.info; }
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> buffer) override {
    return read_at(*node_.content, offset, buffer);
  }

 private:
  const MemoryTree::Node node_;
};

class MemoryStagedFile final : public StagedFile {
 public:
  MemoryStagedFile(std::shared_ptr<MemoryTree> tree, const Uuid& id, MemoryTree::Content content)
      : tree_(std::move(tree)), id_(id), content_(std::move(content)) {}

  std::uint64_t size() const override { return content_.size(); }
  std::span<std::byte> buffer() override { return buffer_; }

  Status commit_buffer(std::size_t bytes) override {
    content_.insert(content_.end(), buffer_.begin(),
                    buffer_.begin() + static_cast<std::ptrdiff_t>(bytes));
    return {};
  }

  Status flush() override {
    LockedTree tree(*tree_);
    tree->staged[id_] = {content_, tree->clock.now()};
    return {};
  }

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> buffer) override {
    return read_at(content_, offset, buffer);
  }

  Status truncate(std::uint64_t size) override {
    content_.resize(size);
    return {};
  }

  Result<FileInfo> commit(const RelPath& path, const CommitOptions& options) override {
    if (path.is_root()) {
      return fail(ErrorCode::invalid_argument, "the vfolder itself cannot be the target");
    }
    if (committed_) return *committed_;
    LockedTree tree(*tree_);
    RETURN_IF_ERROR(options.create_parents ? tree.make_directories(path.parent())
                                           : tree.require_directory(path.parent()));
    const auto* existing = tree.find(path);
    if (options.if_absent && existing != nullptr) {
      return fail(ErrorCode::condition_failed, "'" + path.text() + "' exists already");
    }
    if (existing != nullptr && existing->info.kind == FileKind::directory) {
      return fail(ErrorCode::conflict, "'" + path.text() + "' is a directory");
    }
    if (options.if_etag && (existing == nullptr || existing->info.etag != *options.if_etag)) {
      return fail(ErrorCode::condition_failed, "'" + path.text() + "' has changed");
    }
    FileInfo info = tree.new_info(FileKind::file, content_.size());
    tree->nodes[path.text()] = {info,
                                std::make_shared<const MemoryTree::Content>(std::move(content_))};
    tree->staged.erase(id_);
    committed_ = info;
    return info;
  }

  Status discard() override {
    LockedTree tree(*tree_);
    tree->staged.erase(id_);
    return {};
  }

 private:
  std::shared_ptr<MemoryTree> tree_;  // shared: the vfolder may be removed meanwhile
  const Uuid id_;
  MemoryTree::Content content_;
  std::optional<FileInfo> committed_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kBufferBytes);
};

class MemoryFolder final : public Folder {
 public:
  explicit MemoryFolder(std::shared_ptr<MemoryTree> tree) : tree_(std::move(tree)) {}

  Status sync() override { return {}; }

  Result<FileInfo> stat(const RelPath& path) override {
    if (path.is_root()) return FileInfo{.kind = FileKind::directory, .mode = 0775, .etag = "root"};
    LockedTree tree(*tree_);
    const auto* node = tree.find(path);
    if (node == nullptr) return missing(path);
    return node->info;
  }

  Result<ListPage> list(const RelPath& path, const ListOptions& options) override {
    LockedTree tree(*tree_);
    RETURN_IF_ERROR(tree.require_directory(path));
    const std::size_t prefix = path.is_root() ? 0 : path.text().size() + 1;
    ListPage page;
    for (const auto& [name, node] : tree->nodes) {
      if (!is_below(name, path)) continue;
      const std::string below = name.substr(prefix);
      if (!options.recursive && below.find('/') != std::string::npos) continue;
      if (!options.after.empty() && below <= options.after) continue;
      if (page.entries.size() == options.limit) {
        page.more = true;
        break;
      }
      page.entries.push_back({below, node.info});
    }
    return page;
  }

  Result<std::unique_ptr<ReadHandle>> open(const RelPath& path) override {
    LockedTree tree(*tree_);
    const auto* node = tree.find(path);
    if (node == nullptr && !path.is_root()) return missing(path);
    if (node == nullptr || node->info.kind != FileKind::file) {
      return fail(ErrorCode::invalid_argument, "'" + path.text() + "' is not a regular file");
    }
    return std::make_unique<MemoryReadHandle>(*node);
  }

  Result<std::unique_ptr<StagedFile>> stage(const Uuid& upload, bool create,
                                            std::uint64_t /*size_hint*/) override {
    LockedTree tree(*tree_);
    const auto found = tree->staged.find(upload);
    if (found == tree->staged.end() && !create) {
      return fail(ErrorCode::not_found, "no such staged upload");
    }
    MemoryTree::Content content;
    if (found != tree->staged.end()) content = found->second.content;
    tree->staged[upload].touched = tree->clock.now();
    return std::make_unique<MemoryStagedFile>(tree_, upload, std::move(content));
  }

  Status make_directory(const RelPath& path, bool parents) override {
    LockedTree tree(*tree_);
    if (path.is_root() || tree.find(path) != nullptr) {
      return fail(ErrorCode::already_exists, "'" + path.text() + "' exists already");
    }
    if (!parents) RETURN_IF_ERROR(tree.require_directory(path.parent()));
    return tree.make_directories(path);
  }

  Status move(const RelPath& from, const RelPath& to, const MoveOptions& options) override;
  Status remove(const RelPath& path, bool recursive) override;
  Result<Usage> usage() override;
  Result<std::size_t> collect_staging(const std::vector<Uuid>& keep, UnixTime before) override;

 private:
  std::shared_ptr<MemoryTree> tree_;  // shared: the vfolder may be removed meanwhile
};

bool has_content(MemoryTree& tree, const RelPath& path) {
  const auto next = tree.nodes.lower_bound(path.text() + '/');
  return next != tree.nodes.end() && is_below(next->first, path);
}

// What rename(2) refuses, with the same codes.
Status check_replacement(MemoryTree& tree, const RelPath& to, const MemoryTree::Node& source,
                         const MemoryTree::Node& target, bool replace) {
  if (!replace) return fail(ErrorCode::already_exists, "'" + to.text() + "' exists already");
  if (target.info.kind != source.info.kind) {
    return fail(ErrorCode::conflict, "a file and a directory cannot replace each other");
  }
  if (has_content(tree, to)) return fail(ErrorCode::conflict, to.text() + ": Directory not empty");
  return {};
}

Status MemoryFolder::move(const RelPath& from, const RelPath& to, const MoveOptions& options) {
  if (from.is_root() || to.is_root()) {
    return fail(ErrorCode::invalid_argument, "the vfolder itself cannot be the target");
  }
  LockedTree tree(*tree_);
  const auto* source = tree.find(from);
  if (source == nullptr) return missing(from);
  if (is_below(to.text(), from)) {
    return fail(ErrorCode::invalid_argument, "a directory cannot be moved into itself");
  }
  RETURN_IF_ERROR(options.create_parents ? tree.make_directories(to.parent())
                                         : tree.require_directory(to.parent()));
  if (from == to && options.replace) return {};
  if (const auto* target = tree.find(to)) {
    RETURN_IF_ERROR(check_replacement(*tree_, to, *source, *target, options.replace));
  }
  std::map<std::string, MemoryTree::Node> moved;
  std::erase_if(tree->nodes, [&](auto& item) {
    if (item.first != from.text() && !is_below(item.first, from)) return false;
    moved[to.text() + item.first.substr(from.text().size())] = std::move(item.second);
    return true;
  });
  for (auto& [path, node] : moved) tree->nodes[path] = std::move(node);
  return {};
}

Status MemoryFolder::remove(const RelPath& path, bool recursive) {
  if (path.is_root()) {
    return fail(ErrorCode::invalid_argument, "the vfolder itself cannot be the target");
  }
  LockedTree tree(*tree_);
  if (tree.find(path) == nullptr) return missing(path);
  if (!recursive && has_content(*tree_, path)) {
    return fail(ErrorCode::conflict, path.text() + ": Directory not empty");
  }
  std::erase_if(tree->nodes, [&](const auto& item) {
    return item.first == path.text() || is_below(item.first, path);
  });
  return {};
}

Result<Usage> MemoryFolder::usage() {
  LockedTree tree(*tree_);
  Usage usage;
  for (const auto& [path, node] : tree->nodes) {
    if (node.info.kind == FileKind::directory) ++usage.directories;
    if (node.info.kind != FileKind::file) continue;
    ++usage.files;
    usage.size_bytes += node.info.size_bytes;
    usage.allocated_bytes += node.info.size_bytes;
  }
  return usage;
}

Result<std::size_t> MemoryFolder::collect_staging(const std::vector<Uuid>& keep, UnixTime before) {
  LockedTree tree(*tree_);
  return std::erase_if(tree->staged, [&](const auto& item) {
    return item.second.touched < before &&
           std::find(keep.begin(), keep.end(), item.first) == keep.end();
  });
}

}  // namespace

std::unique_ptr<Folder> make_memory_folder(std::shared_ptr<MemoryTree> tree) {
  return std::make_unique<MemoryFolder>(std::move(tree));
}

}  // namespace onggi::backend
