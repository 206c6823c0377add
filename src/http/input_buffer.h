#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace onggi::http {

// Bytes read from a connection and not yet consumed. Holds no memory until asked for space, and
// none after release(), so that an idle connection costs nothing. One thread at a time.
class InputBuffer {
 public:
  std::string_view view() const { return {data_.get() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }
  std::size_t size() const { return end_ - begin_; }

  // At least `bytes` of space after what is there; may move what is there.
  std::span<std::byte> space(std::size_t bytes) {
    if (capacity_ - end_ < bytes) make_room(bytes);
    return std::as_writable_bytes(std::span(data_.get() + end_, capacity_ - end_));
  }
  void add(std::size_t bytes) { end_ += bytes; }
  void consume(std::size_t bytes) {
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }
  void release() {
    data_.reset();
    begin_ = end_ = capacity_ = 0;
  }

 private:
  void make_room(std::size_t bytes) {
    const std::size_t held = size();
    if (held + bytes <= capacity_) {
      std::copy(data_.get() + begin_, data_.get() + end_, data_.get());
    } else {
      const std::size_t capacity = std::max(held + bytes, 2 * capacity_);
      // A vector would fill the space with zeros that the socket overwrites.
      auto larger = std::make_unique_for_overwrite<char[]>(capacity);  // NOLINT(*-avoid-c-arrays)
      std::copy(data_.get() + begin_, data_.get() + end_, larger.get());
      data_ = std::move(larger);
      capacity_ = capacity;
    }
    begin_ = 0;
    end_ = held;
  }

  std::unique_ptr<char[]> data_;  // NOLINT(*-avoid-c-arrays): see make_room()
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace onggi::http
