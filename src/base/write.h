#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace onggi {

// Writes all of `bytes` to a stream (a socket, a pipe). `what` begins the error's text.
Status write_all(int fd, std::span<const std::byte> bytes, std::string_view what);

// Writes all of `bytes` to a file from `offset` on. storage_full when the disk takes no more.
Status write_all_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset,
                    std::string_view what);

}  // namespace onggi
