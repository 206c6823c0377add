// The client as Python sees it: thin, and without the interpreter's lock wherever it may block.
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "client/client.h"
#include "client/connection.h"
#include "client/download.h"
#include "client/http_client.h"
#include "client/transfer.h"
#include "client/upload.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace): "name"_a, nothing else

namespace onggi::python {

namespace {

[[noreturn]] void raise(const Error& error) {
  const nb::object exception =
      nb::module_::import_("onggi._errors")
          .attr("make_error")(std::string(to_string(error.code())), error.message());
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result) raise(result.error());
  return *std::move(result);
}

// Lets ctrl-C reach Python while native code blocks: ten times a second it looks whether a signal
// came, and keeps the exception that its handler raised. One call, one thread.
class SignalWatch {
 public:
  explicit SignalWatch(Clock& clock) : clock_(clock), next_(clock.steady_now() + kInterval) {}

  client::CancelCheck check() {
    return [this] { return looked(); };
  }

  // To be called with the interpreter's lock, before any result is used.
  void rethrow() {
    if (raised_) throw nb::python_error(std::move(*raised_));
  }

  // Keeps an exception of a callback, which ends the call as ctrl-C does.
  void keep(nb::python_error error) {
    if (!raised_) raised_.emplace(std::move(error));
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{100};

  bool looked() {
    if (raised_) return true;
    if (clock_.steady_now() < next_) return false;
    next_ = clock_.steady_now() + kInterval;
    const nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) raised_.emplace();  // takes the exception that is set
    return raised_.has_value();
  }

  Clock& clock_;
  SteadyTime next_;
  std::optional<nb::python_error> raised_;
};

// A borrowed view of an object's bytes (the buffer protocol), contiguous.
class BufferView {
 public:
  BufferView(nb::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  BufferView(BufferView&&) = delete;
  BufferView& operator=(BufferView&&) = delete;

  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

using Headers = client::HeaderList;
using Answer = std::tuple<int, Headers, nb::bytes>;

// The body of an answer that is being read.
class Stream {
 public:
  Stream(std::unique_ptr<client::HttpStream> stream, std::shared_ptr<Clock> clock)
      : stream_(std::move(stream)), clock_(std::move(clock)) {}

  int status() const { return stream_->head().status; }
  Headers headers() const { return stream_->head().headers; }
  nb::bytes body() const {
    const std::string& text = stream_->head().body;
    return nb::bytes(text.data(), text.size());
  }

  std::size_t readinto(nb::handle buffer) {
    const BufferView view(buffer, PyBUF_WRITABLE);
    SignalWatch watch(*clock_);
    Result<std::size_t> filled = 0;
    {
      const nb::gil_scoped_release unlocked;
      filled = fill(view.bytes(), watch.check());
    }
    watch.rethrow();
    return value_or_raise(std::move(filled));
  }

  void close() { stream_->close(); }

 private:
  Result<std::size_t> fill(std::span<std::byte> out, const client::CancelCheck& cancelled) {
    std::size_t filled = 0;
    while (filled < out.size()) {
      ASSIGN_OR_RETURN(const std::size_t count, stream_->read(out.subspan(filled), cancelled));
      if (count == 0) break;
      filled += count;
    }
    return filled;
  }

  const std::unique_ptr<client::HttpStream> stream_;
  const std::shared_ptr<Clock> clock_;  // shared with the Http it came from, which it may outlive
};

nb::dict to_dict(const client::TransferSummary& summary) {
  nb::dict dict;
  dict["files"] = summary.files;
  dict["size_bytes"] = summary.size_bytes;
  dict["files_skipped"] = summary.files_skipped;
  dict["bytes_resumed"] = summary.bytes_resumed;
  dict["warnings"] = summary.warnings;
  nb::list failures;
  for (const client::TransferFailure& failure : summary.failures) {
    failures.append(nb::make_tuple(failure.path, std::string(to_string(failure.error.code())),
                                   failure.error.message()));
  }
  dict["failures"] = failures;
  return dict;
}

// What Python says about a transfer; `progress` is None or called with four counts and a name.
struct TransferSettings {
  std::size_t jobs;
  bool verify;
  bool force;
  bool durable;
  nb::object progress;
};

// One daemon.
class Http {
 public:
  Http(const std::string& url, const std::string& token, const std::string& profile)
      : clock_(std::make_shared<SystemClock>()),
        client_(value_or_raise(
                    client::resolve_connection({.url = url, .token = token, .profile = profile},
                                               client::Surroundings::of_process())),
                *clock_) {}

  const client::Connection& connection() const { return client_.connection(); }

  Answer request(const std::string& method, const std::string& target, nb::object body,
                 Headers headers) {
    client::HttpRequest request{.method = method, .target = target, .headers = std::move(headers)};
    std::optional<BufferView> view;
    if (!body.is_none()) {
      view.emplace(body, PyBUF_SIMPLE);
      request.body = view->bytes();
    }
    client::HttpResponse response = exchange(request, {});
    return {response.status, std::move(response.headers),
            nb::bytes(response.body.data(), response.body.size())};
  }

  // The body of a 2xx answer goes into `buffer`; that of another is returned.
  std::tuple<int, Headers, nb::bytes, std::size_t> request_into(const std::string& target,
                                                                Headers headers,
                                                                nb::handle buffer) {
    const client::HttpRequest request{.target = target, .headers = std::move(headers)};
    const BufferView view(buffer, PyBUF_WRITABLE);
    std::size_t filled = 0;
    const auto sink = [&](std::span<const std::byte> piece) -> Status {
      const auto room = view.bytes().subspan(filled);
      if (piece.size() > room.size()) {
        return fail(ErrorCode::invalid_argument, "the buffer is smaller than the answer");
      }
      std::ranges::copy(piece, room.begin());
      filled += piece.size();
      return {};
    };
    client::HttpResponse response = exchange(request, sink);
    return {response.status, std::move(response.headers),
            nb::bytes(response.body.data(), response.body.size()), filled};
  }

  std::unique_ptr<Stream> open_stream(const std::string& method, const std::string& target,
                                      nb::object body, Headers headers) {
    client::HttpRequest request{.method = method, .target = target, .headers = std::move(headers)};
    std::optional<BufferView> view;
    if (!body.is_none()) {
      view.emplace(body, PyBUF_SIMPLE);
      request.body = view->bytes();
    }
    SignalWatch watch(*clock_);
    Result<std::unique_ptr<client::HttpStream>> stream = nullptr;
    {
      const nb::gil_scoped_release unlocked;
      stream = client_.http().open_stream(request, watch.check());
    }
    watch.rethrow();
    return std::make_unique<Stream>(value_or_raise(std::move(stream)), clock_);
  }

  nb::dict upload(const std::string& local, const std::string& vfolder, const std::string& path,
                  bool tree, const TransferSettings& settings) {
    const client::RemotePlace place{vfolder, path};
    return transfer(settings, [&](const client::TransferOptions& options) {
      return tree ? client::upload_tree(client_, local, place, options)
                  : client::upload_file(client_, local, place, options);
    });
  }

  nb::dict download(const std::string& vfolder, const std::string& path, const std::string& local,
                    bool tree, const TransferSettings& settings) {
    const client::RemotePlace place{vfolder, path};
    return transfer(settings, [&](const client::TransferOptions& options) {
      return tree ? client::download_tree(client_, place, local, options)
                  : client::download_file(client_, place, local, options);
    });
  }

 private:
  nb::dict transfer(
      const TransferSettings& settings,
      const std::function<Result<client::TransferSummary>(const client::TransferOptions&)>& run) {
    SignalWatch watch(*clock_);
    client::TransferOptions options{
        .jobs = settings.jobs,
        .verify = settings.verify,
        .force = settings.force,
        .durable = settings.durable,
        .state_folder =
            client::cache_folder_path(client::Surroundings::of_process()) + "/transfers",
        .cancelled = watch.check()};
    if (!settings.progress.is_none()) {
      options.progress = [&](const client::Progress& progress) {
        const nb::gil_scoped_acquire lock;
        try {
          settings.progress(progress.bytes_done, progress.bytes_total, progress.files_done,
                            progress.files_total, progress.current);
        } catch (nb::python_error& error) {
          watch.keep(std::move(error));
        }
      };
    }
    Result<client::TransferSummary> summary = client::TransferSummary();
    {
      const nb::gil_scoped_release unlocked;
      summary = run(options);
    }
    watch.rethrow();
    return to_dict(value_or_raise(std::move(summary)));
  }

  client::HttpResponse exchange(const client::HttpRequest& request,
                                std::function<Status(std::span<const std::byte>)> sink) {
    SignalWatch watch(*clock_);
    Result<client::HttpResponse> response = client::HttpResponse();
    {
      const nb::gil_scoped_release unlocked;
      response = client_.exchange(request, {.sink = std::move(sink), .cancelled = watch.check()});
    }
    watch.rethrow();
    return value_or_raise(std::move(response));
  }

  const std::shared_ptr<Clock> clock_;  // shared with its streams
  client::Client client_;
};

std::uint64_t checksum(nb::handle buffer) {
  const BufferView view(buffer, PyBUF_SIMPLE);
  const nb::gil_scoped_release unlocked;
  return xxh3(view.bytes());
}

}  // namespace

NB_MODULE(_native, module) {
  module.doc() = "The native client of Onggi's API.";
  module.def("xxh3", &checksum, "buffer"_a, "XXH3-64 of the bytes.");

  nb::class_<Stream>(module, "Stream", "The body of an answer that is read while it comes.")
      .def_prop_ro("status", &Stream::status)
      .def_prop_ro("headers", &Stream::headers)
      .def_prop_ro("body", &Stream::body, "The whole body when the status is an error.")
      .def("readinto", &Stream::readinto, "buffer"_a,
           "Fills the buffer and returns its size, or less at the end of the body.")
      .def("close", &Stream::close, "Ends a blocked readinto() of another thread too.");

  nb::class_<Http>(module, "Http", "HTTP to one daemon. Thread-safe.")
      .def(nb::init<const std::string&, const std::string&, const std::string&>(), "url"_a = "",
           "token"_a = "", "profile"_a = "")
      .def_prop_ro("base_url", [](const Http& http) { return http.connection().base_url; })
      .def_prop_ro("unix_socket", [](const Http& http) { return http.connection().unix_socket; })
      .def_prop_ro("origin", [](const Http& http) { return http.connection().origin; })
      .def_prop_ro("display", [](const Http& http) { return http.connection().display(); })
      .def("request", &Http::request, "method"_a, "target"_a, "body"_a = nb::none(),
           "headers"_a = Headers())
      .def("request_into", &Http::request_into, "target"_a, "headers"_a, "buffer"_a)
      .def("open_stream", &Http::open_stream, "method"_a, "target"_a, "body"_a = nb::none(),
           "headers"_a = Headers())
      .def(
          "upload",
          [](Http& http, const std::string& local, const std::string& vfolder,
             const std::string& path, bool tree, std::size_t jobs, bool verify, bool force,
             bool durable, nb::object progress) {
            return http.upload(local, vfolder, path, tree,
                               {jobs, verify, force, durable, std::move(progress)});
          },
          "local"_a, "vfolder"_a, "path"_a, nb::kw_only(), "tree"_a, "jobs"_a, "verify"_a,
          "force"_a, "durable"_a, "progress"_a.none())
      .def(
          "download",
          [](Http& http, const std::string& vfolder, const std::string& path,
             const std::string& local, bool tree, std::size_t jobs, bool verify, bool force,
             bool durable, nb::object progress) {
            return http.download(vfolder, path, local, tree,
                                 {jobs, verify, force, durable, std::move(progress)});
          },
          "vfolder"_a, "path"_a, "local"_a, nb::kw_only(), "tree"_a, "jobs"_a, "verify"_a,
          "force"_a, "durable"_a, "progress"_a.none());
}

}  // namespace onggi::python
