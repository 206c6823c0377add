#include "base/checksum.h"

#include <array>

#include <openssl/evp.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/encoding.h"

namespace onggi {
namespace {

std::string evp_digest(const EVP_MD* algorithm, std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned int size = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(), out.data(), &size, algorithm, nullptr) == 1);
  std::string text(size, '\0');
  for (unsigned int i = 0; i < size; ++i) text[i] = static_cast<char>(out[i]);
  return text;
}

}  // namespace

struct Xxh3::State {
  XXH3_state_t* hash = XXH3_createState();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(hash); }
};

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Xxh3::Xxh3() : state_(std::make_unique<State>()) {
  CHECK(state_->hash != nullptr);
  XXH3_64bits_reset(state_->hash);
}

Xxh3::~Xxh3() = default;
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;

void Xxh3::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_->hash, bytes.data(), bytes.size());
}

std::uint64_t Xxh3::digest() const {
  return XXH3_64bits_digest(state_->hash);
}

std::string sha256(std::string_view text) {
  return evp_digest(EVP_sha256(), as_bytes(text));
}

std::string sha1(std::span<const std::byte> bytes) {
  return evp_digest(EVP_sha1(), bytes);
}

struct Sha1::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha1::Sha1() : state_(std::make_unique<State>()) {
  CHECK(EVP_DigestInit_ex(state_->context, EVP_sha1(), nullptr) == 1);
}

Sha1::~Sha1() = default;

void Sha1::update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha1::finish() {
  std::string digest(20, '\0');
  // EVP writes unsigned bytes; a cast is the only way there.
  CHECK(EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(digest.data()),
                           nullptr) == 1);
  return digest;
}

}  // namespace onggi
