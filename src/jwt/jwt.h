#pragma once

#include <memory>
#include <string>

#include <jwt.h>

#include "base/result.h"

// Owners of libjwt's things, and the one algorithm we use: HS256 (RFC 7518). Stateless.
namespace onggi::jwt {

struct FreeToken {
  void operator()(jwt_t* token) const { jwt_free(token); }
};
using Token = std::unique_ptr<jwt_t, FreeToken>;

struct FreeText {
  void operator()(char* text) const;
};
using Text = std::unique_ptr<char, FreeText>;

// One to be signed with `secret`, without claims.
Result<Token> make(const std::string& secret);
// The signed text.
Result<std::string> encode(const Token& token);

// None unless it is well formed, of HS256, and signed with `secret`. Its times are not looked at.
// `text` has no NUL.
Token verify(const std::string& text, const std::string& secret);
// None unless it is well formed; nothing in it is to be believed.
Token decode_unverified(const std::string& text);

}  // namespace onggi::jwt
