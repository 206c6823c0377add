#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "backend/backend.h"
#include "base/result.h"

namespace onggi::backend {

// The operations of Backend, Folder and StagedFile that a layer stands before. Moving a file's
// bytes is not among them: that is the handles' own business and mostly the kernel's.
enum class Operation {
  space,
  create_folder,
  open_folder,
  remove_folder,
  list_folders,
  recover,
  stat,
  list,
  open,
  stage,
  make_directory,
  move,
  remove,
  usage,
  sync,
  collect_staging,
  flush,   // of a staged file, as is
  commit,  // this
};

std::string_view to_string(Operation operation);

// One attempt at an operation. Owns all it needs, so that a layer may give up on it while it runs;
// but for flush and commit, whose file belongs to the caller: they must end before run() does.
using Attempt = std::function<Status()>;

// A layer's policy: runs an attempt never, once or several times. Thread-safe.
class Interceptor {
 public:
  virtual ~Interceptor() = default;
  virtual Status run(Operation operation, const Attempt& attempt) = 0;
};

// `backend`, with every operation on it and on its folders passing through `interceptor`.
std::unique_ptr<Backend> intercept(std::unique_ptr<Backend> backend,
                                   std::unique_ptr<Interceptor> interceptor);

}  // namespace onggi::backend
