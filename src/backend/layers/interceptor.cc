#include "backend/layers/interceptor.h"

#include <optional>
#include <utility>

namespace onggi::backend {
namespace {

template <typename T>
Status status_of(const Result<T>& result) {
  if (!result) return tl::unexpected(result.error());
  return {};
}

// Runs `call` through the interceptor and brings its value back. The value is shared with the
// attempt, which may outlive this call when a layer gave up waiting for it.
template <typename Call>
auto run(Interceptor& interceptor, Operation operation, Call call) -> decltype(call()) {
  using R = decltype(call());
  auto value = std::make_shared<std::optional<R>>();
  RETURN_IF_ERROR(interceptor.run(operation, [value, call = std::move(call)] {
    *value = call();
    return status_of(**value);
  }));
  return std::move(**value);
}

class InterceptedStagedFile final : public StagedFile {
 public:
  InterceptedStagedFile(std::unique_ptr<StagedFile> file, std::shared_ptr<Interceptor> interceptor)
      : file_(std::move(file)), interceptor_(std::move(interceptor)) {}

  std::uint64_t size() const override { return file_->size(); }
  std::span<std::byte> buffer() override { return file_->buffer(); }
  Status commit_buffer(std::size_t bytes) override { return file_->commit_buffer(bytes); }
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> buffer) override {
    return file_->read(offset, buffer);
  }
  Status truncate(std::uint64_t size) override { return file_->truncate(size); }
  Status discard() override { return file_->discard(); }

  Status flush() override {
    return run(*interceptor_, Operation::flush, [this] { return file_->flush(); });
  }
  Result<FileInfo> commit(const RelPath& path, const CommitOptions& options) override {
    return run(*interceptor_, Operation::commit,
               [this, &path, &options] { return file_->commit(path, options); });
  }

 private:
  std::unique_ptr<StagedFile> file_;
  std::shared_ptr<Interceptor> interceptor_;  // shared with the backend and its folders
};

class InterceptedFolder final : public Folder {
 public:
  InterceptedFolder(std::unique_ptr<Folder> folder, std::shared_ptr<Interceptor> interceptor)
      : folder_(std::move(folder)), interceptor_(std::move(interceptor)) {}

  Result<FileInfo> stat(const RelPath& path) override {
    return through(Operation::stat, [folder = folder_, path] { return folder->stat(path); });
  }
  Result<ListPage> list(const RelPath& path, const ListOptions& options) override {
    return through(Operation::list,
                   [folder = folder_, path, options] { return folder->list(path, options); });
  }
  Result<std::unique_ptr<ReadHandle>> open(const RelPath& path) override {
    return through(Operation::open, [folder = folder_, path] { return folder->open(path); });
  }
  Result<std::unique_ptr<StagedFile>> stage(const Uuid& upload, bool create,
                                            std::uint64_t size_hint) override {
    ASSIGN_OR_RETURN(auto file,
                     through(Operation::stage, [folder = folder_, upload, create, size_hint] {
                       return folder->stage(upload, create, size_hint);
                     }));
    return std::make_unique<InterceptedStagedFile>(std::move(file), interceptor_);
  }
  Status make_directory(const RelPath& path, bool parents) override {
    return through(Operation::make_directory, [folder = folder_, path, parents] {
      return folder->make_directory(path, parents);
    });
  }
  Status move(const RelPath& from, const RelPath& to, const MoveOptions& options) override {
    return through(Operation::move, [folder = folder_, from, to, options] {
      return folder->move(from, to, options);
    });
  }
  Status remove(const RelPath& path, bool recursive) override {
    return through(Operation::remove,
                   [folder = folder_, path, recursive] { return folder->remove(path, recursive); });
  }
  Result<Usage> usage() override {
    return through(Operation::usage, [folder = folder_] { return folder->usage(); });
  }
  Status sync() override {
    return through(Operation::sync, [folder = folder_] { return folder->sync(); });
  }
  Result<std::size_t> collect_staging(const std::vector<Uuid>& keep, UnixTime before) override {
    return through(Operation::collect_staging, [folder = folder_, keep, before] {
      return folder->collect_staging(keep, before);
    });
  }
  std::optional<int> descriptor() const override { return folder_->descriptor(); }

 private:
  template <typename Call>
  auto through(Operation operation, Call call) -> decltype(call()) {
    return run(*interceptor_, operation, std::move(call));
  }

  // Shared with attempts that were given up.
  std::shared_ptr<Folder> folder_;
  std::shared_ptr<Interceptor> interceptor_;
};

class InterceptedBackend final : public Backend {
 public:
  InterceptedBackend(std::unique_ptr<Backend> backend, std::unique_ptr<Interceptor> interceptor)
      : backend_(std::move(backend)), interceptor_(std::move(interceptor)) {}

  Capabilities capabilities() const override { return backend_->capabilities(); }
  Result<Space> space() override {
    return through(Operation::space, [backend = backend_] { return backend->space(); });
  }
  Status create_folder(const FolderId& id, std::uint32_t mode) override {
    return through(Operation::create_folder,
                   [backend = backend_, id, mode] { return backend->create_folder(id, mode); });
  }
  Result<std::unique_ptr<Folder>> open_folder(const FolderId& id) override {
    ASSIGN_OR_RETURN(auto folder, through(Operation::open_folder, [backend = backend_, id] {
                       return backend->open_folder(id);
                     }));
    return std::make_unique<InterceptedFolder>(std::move(folder), interceptor_);
  }
  Status remove_folder(const FolderId& id) override {
    return through(Operation::remove_folder,
                   [backend = backend_, id] { return backend->remove_folder(id); });
  }
  Result<std::vector<FolderId>> list_folders() override {
    return through(Operation::list_folders,
                   [backend = backend_] { return backend->list_folders(); });
  }
  Status recover() override {
    return through(Operation::recover, [backend = backend_] { return backend->recover(); });
  }

 private:
  template <typename Call>
  auto through(Operation operation, Call call) -> decltype(call()) {
    return run(*interceptor_, operation, std::move(call));
  }

  // Shared with attempts that were given up, the interceptor with folders too.
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Interceptor> interceptor_;
};

}  // namespace

std::string_view to_string(Operation operation) {
  switch (operation) {
    case Operation::space:
      return "space";
    case Operation::create_folder:
      return "create_folder";
    case Operation::open_folder:
      return "open_folder";
    case Operation::remove_folder:
      return "remove_folder";
    case Operation::list_folders:
      return "list_folders";
    case Operation::recover:
      return "recover";
    case Operation::stat:
      return "stat";
    case Operation::list:
      return "list";
    case Operation::open:
      return "open";
    case Operation::stage:
      return "stage";
    case Operation::make_directory:
      return "make_directory";
    case Operation::move:
      return "move";
    case Operation::remove:
      return "remove";
    case Operation::usage:
      return "usage";
    case Operation::sync:
      return "sync";
    case Operation::collect_staging:
      return "collect_staging";
    case Operation::flush:
      return "flush";
    case Operation::commit:
      return "commit";
  }
  return "unknown";
}

std::unique_ptr<Backend> intercept(std::unique_ptr<Backend> backend,
                                   std::unique_ptr<Interceptor> interceptor) {
  return std::make_unique<InterceptedBackend>(std::move(backend), std::move(interceptor));
}

}  // namespace onggi::backend
