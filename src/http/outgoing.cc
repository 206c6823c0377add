#include "http/outgoing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/encoding.h"
#include "http/router.h"

namespace onggi::http {
namespace {

bool is_framing_field(std::string_view name) {
  return equal_names(name, "Transfer-Encoding") || equal_names(name, "Connection") ||
         equal_names(name, "Content-Length") || equal_names(name, "Date") ||
         equal_names(name, "Server") || equal_names(name, "X-Request-Id");
}

// A line break in a value would let whoever chose it write header fields of their own.
void append_value(std::string& out, std::string_view value) {
  for (const char c : value) {
    out += static_cast<unsigned char>(c) < 0x20 && c != '\t' ? ' ' : c;
  }
}

}  // namespace

std::string DateText::now() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::int64_t second = now.time_since_epoch().count();
  const MutexLock lock(mutex_);
  if (second != second_) {
    second_ = second;
    text_ = fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(second));
  }
  return text_;
}

std::string head_text(const Response& response, const HeadFields& fields) {
  std::string out;
  out.reserve(512);
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "HTTP/1.1 {} {}\r\nServer: onggi\r\nDate: {}\r\nX-Request-Id: {}\r\n",
                 response.status, reason_phrase(response.status), fields.date, fields.request_id);
  for (const auto& [name, value] : response.headers.all()) {
    if (is_framing_field(name)) continue;
    out += name;
    out += ": ";
    append_value(out, value);
    out += "\r\n";
  }
  if (fields.framing == Framing::length) {
    fmt::format_to(to, "Content-Length: {}\r\n", fields.length);
  } else if (fields.framing == Framing::chunked) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  if (!fields.keep_alive) {
    out += "Connection: close\r\n";
  } else if (fields.http_1_0) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
  return out;
}

IoStep Outgoing::send(Transport& transport) {
  if (sent_ < head_.size() + text_.size()) {
    const std::size_t of_text = sent_ > head_.size() ? sent_ - head_.size() : 0;
    const std::array<std::span<const std::byte>, 2> pieces = {
        as_bytes(std::string_view(head_).substr(std::min(sent_, head_.size()))),
        as_bytes(std::string_view(text_).substr(of_text))};
    const IoStep step = transport.write(pieces, file_.length > 0);
    sent_ += step.bytes;
    return step;
  }
  const IoStep step = transport.send_file(file_.file.get(), file_.offset, file_.length);
  file_.offset += step.bytes;
  file_.length -= step.bytes;
  return step;
}

}  // namespace onggi::http
