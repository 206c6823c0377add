#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/result.h"

namespace onggi::io {

// The alignment that direct I/O needs everywhere: no device here has larger logical blocks.
inline constexpr std::size_t kDirectAlignment = 4096;

// Page-aligned memory for direct I/O, mapped (huge pages where the kernel gives them) and unmapped
// at once, so that a transfer's buffers never linger in a heap. Movable.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // `size` is rounded up to the alignment. resource_exhausted when there is no memory.
  static Result<AlignedBuffer> allocate(std::size_t size);

  AlignedBuffer(AlignedBuffer&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit AlignedBuffer(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace onggi::io
