#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace onggi {

// Fills `out` from the kernel's random generator (getrandom). Thread-safe, cannot fail.
void fill_random(std::span<std::byte> out);

// `bytes` random bytes as unpadded base64url text.
std::string random_token(std::size_t bytes);

}  // namespace onggi
