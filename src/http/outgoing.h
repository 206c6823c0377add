#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "http/message.h"
#include "http/transport.h"

namespace onggi::http {

// The current time as the Date field has it, formatted once a second. Thread-safe.
class DateText {
 public:
  std::string now();

 private:
  Mutex mutex_;
  std::int64_t second_ GUARDED_BY(mutex_) = -1;
  std::string text_ GUARDED_BY(mutex_);
};

// How the body of a response is delimited.
enum class Framing { none, length, chunked, until_close };

struct HeadFields {
  std::string_view request_id;
  std::string date;
  Framing framing = Framing::length;
  std::uint64_t length = 0;
  bool keep_alive = true;
  bool http_1_0 = false;
};

// The status line and header fields of `response`, blank line included. Fields that frame the
// message are the server's own; a handler's Content-Length counts only where no body is sent.
std::string head_text(const Response& response, const HeadFields& fields);

// A response on its way out: head and text, or head and file. One thread at a time.
class Outgoing {
 public:
  Outgoing(std::string head, std::string text, std::optional<FileBody> file)
      : head_(std::move(head)),
        text_(std::move(text)),
        has_file_(file.has_value()),
        file_(file ? *std::move(file) : FileBody{}) {}

  bool done() const { return sent_ == head_.size() + text_.size() && file_.length == 0; }
  bool has_file() const { return has_file_; }
  // Sends some; ended also when the file is shorter than promised.
  IoStep send(Transport& transport);

 private:
  std::string head_;
  std::string text_;
  bool has_file_;
  FileBody file_;
  std::size_t sent_ = 0;  // of head and text
};

}  // namespace onggi::http
