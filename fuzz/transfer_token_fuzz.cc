#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <jwt.h>

#include "base/check.h"
#include "base/clock.h"
#include "catalog/sqlite/sqlite_catalog.h"
#include "vfolder/transfer_tokens.h"

namespace {

using onggi::vfolder::TransferOperation;
using onggi::vfolder::TransferTokens;

constexpr std::string_view kSecret = "known to this fuzzer, so that it gets behind the signature";

TransferTokens open_tokens() {
  static onggi::FakeClock clock;
  std::string folder = std::filesystem::temp_directory_path() / "transfer-token-fuzz-XXXXXX";
  CHECK(::mkdtemp(folder.data()) != nullptr);
  auto catalog = onggi::catalog::open_sqlite_catalog({.path = folder + "/catalog.sqlite"});
  CHECK(catalog && (*catalog)->settings().put_if_absent("transfer_secret", kSecret));
  auto tokens = TransferTokens::open(**catalog, clock);
  CHECK(tokens);
  catalog->reset();
  std::filesystem::remove_all(folder);
  return *std::move(tokens);
}

// The claims as a token with a good signature; empty when they are no JSON object.
std::string sign(const std::string& claims) {
  jwt_t* raw = nullptr;
  CHECK(jwt_new(&raw) == 0);
  const std::unique_ptr<jwt_t, decltype(&jwt_free)> jwt(raw, jwt_free);
  if (jwt_add_grants_json(raw, claims.c_str()) != 0) return {};
  const auto* key = reinterpret_cast<const unsigned char*>(kSecret.data());
  CHECK(jwt_set_alg(raw, JWT_ALG_HS256, key, static_cast<int>(kSecret.size())) == 0);
  const std::unique_ptr<char, decltype(&std::free)> text(jwt_encode_str(raw), std::free);
  return text ? text.get() : "";
}

}  // namespace

// The first byte chooses whether the rest is a token or the claims of one that is signed well.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TransferTokens tokens = open_tokens();
  if (size == 0) return 0;
  std::string text(data + 1, data + size);
  if (data[0] % 2 == 1) text = sign(text);
  for (const auto operation : {TransferOperation::download, TransferOperation::upload}) {
    const auto grant = tokens.verify(text, operation);
    if (!grant) continue;
    CHECK(grant->operation == operation);
    CHECK(onggi::backend::RelPath::parse(grant->path.text()));
  }
  return 0;
}
