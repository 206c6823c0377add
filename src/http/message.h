#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace onggi::http {

enum class Method { get, head, put, post, patch, del, options };

// Header names compare without regard to ASCII case.
bool equal_names(std::string_view a, std::string_view b);

// Header fields in order; names compare without regard to case.
class Headers {
 public:
  void set(std::string name, std::string value);  // replaces
  void add(std::string name, std::string value);  // keeps others of that name
  std::optional<std::string_view> get(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// Who is at the other end.
struct Peer {
  std::string address;               // "127.0.0.1:40112", or "unix"
  std::optional<std::uint32_t> uid;  // of a Unix socket's peer (SO_PEERCRED)
};

// A request whose head has been read. `path` is percent-decoded except inside `params`' source
// segments: the router matches encoded segments and decodes each once, so "%2F" never splits.
struct Request {
  Method method = Method::get;
  std::string target;                         // as sent
  std::string path;                           // encoded, without the query
  std::map<std::string, std::string> query;   // decoded; the last of a name wins
  std::map<std::string, std::string> params;  // decoded path parameters by name
  Headers headers;
  std::optional<std::uint64_t> content_length;  // none: no body, or chunked
  bool chunked = false;
  std::string
      body;  // whole body for handlers, at most ServerOptions::body_bytes_max; empty for sinks
  Peer peer;
  std::string request_id;  // from X-Request-Id when sane, else made here; echoed in the response
};

// The bytes of an open file: the server moves them with sendfile.
struct FileBody {
  FileDescriptor file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// Bytes made while they are sent. next() blocks on a pool thread; the span stays valid until the
// next call; an empty span ends the body; an error cuts the connection (the client sees a
// truncated chunked body, never a complete one). When the peer leaves, cancel() is called once,
// usually from another thread, and must make a blocked next() return. A peer that shuts down only
// its sending side counts as gone.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Result<std::span<const std::byte>> next() = 0;
  virtual void cancel() {}
};

// A described response: handlers never write bytes themselves.
struct Response {
  int status = 200;
  Headers headers;
  // One of them: text (Content-Length known), a file range, or a stream (chunked).
  std::string text;
  std::optional<FileBody> file;
  std::unique_ptr<Stream> stream;
};

// Receives a request body. The server reads the socket straight into buffer(), then calls commit()
// with the count, so nothing is copied; both run on a pool thread, one call at a time.
class Sink {
 public:
  virtual ~Sink() = default;
  // Space for the next bytes, at least 1 byte; large buffers (1 MiB and more) mean fewer calls.
  virtual std::span<std::byte> buffer() = 0;
  virtual Status commit(std::size_t bytes) = 0;
  // The body is complete, or commit() failed and the rest is not read: makes the response. Called
  // once, last.
  virtual Response finish() = 0;
  // The peer left or sent a malformed body after some bytes; keep or drop what came. Called
  // instead of finish().
  virtual void abandon() = 0;
};

// What a route answers to a request head: a response at once (the body, if any, is drained or the
// connection closed), or a sink for the body.
struct Intake {
  std::unique_ptr<Sink> sink;
  std::optional<Response> response;
};

}  // namespace onggi::http
