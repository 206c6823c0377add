#include "jwt/jwt.h"

#include <cstdlib>

namespace onggi::jwt {
namespace {

// libjwt wants unsigned bytes; a cast is the only way there.
const unsigned char* as_key(const std::string& secret) {
  return reinterpret_cast<const unsigned char*>(secret.data());
}

}  // namespace

void FreeText::operator()(char* text) const {
  std::free(text);  // what libjwt's manual asks for
}

Result<Token> make(const std::string& secret) {
  jwt_t* raw = nullptr;
  if (jwt_new(&raw) != 0) return fail(ErrorCode::internal, "cannot make a token");
  Token token(raw);
  if (jwt_set_alg(raw, JWT_ALG_HS256, as_key(secret), static_cast<int>(secret.size())) != 0) {
    return fail(ErrorCode::internal, "cannot make a token");
  }
  return token;
}

Result<std::string> encode(const Token& token) {
  const Text text(jwt_encode_str(token.get()));
  if (!text) return fail(ErrorCode::internal, "cannot make a token");
  return std::string(text.get());
}

Token verify(const std::string& text, const std::string& secret) {
  jwt_t* raw = nullptr;
  const int rc = jwt_decode(&raw, text.c_str(), as_key(secret), static_cast<int>(secret.size()));
  Token token(rc == 0 ? raw : nullptr);
  // An unsigned token decodes only without a key, but the algorithm is ours to insist on.
  if (token && jwt_get_alg(raw) != JWT_ALG_HS256) return nullptr;
  return token;
}

Token decode_unverified(const std::string& text) {
  jwt_t* raw = nullptr;
  return Token(jwt_decode(&raw, text.c_str(), nullptr, 0) == 0 ? raw : nullptr);
}

}  // namespace onggi::jwt
