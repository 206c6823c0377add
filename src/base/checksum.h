#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace onggi {

// XXH3-64 of `bytes`: the checksum of frames and of transfers.
std::uint64_t xxh3(std::span<const std::byte> bytes);

// XXH3-64 over pieces. One thread at a time.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;

  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// SHA-256 as 32 raw bytes. Tokens are stored as this.
std::string sha256(std::string_view text);
// SHA-1 as 20 raw bytes, for TUS's checksum extension alone.
std::string sha1(std::span<const std::byte> bytes);

// SHA-1 over pieces. One thread at a time.
class Sha1 {
 public:
  Sha1();
  ~Sha1();
  Sha1(const Sha1&) = delete;
  Sha1& operator=(const Sha1&) = delete;
  Sha1(Sha1&&) = delete;
  Sha1& operator=(Sha1&&) = delete;

  void update(std::span<const std::byte> bytes);
  // 20 raw bytes; ends the computation.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace onggi
