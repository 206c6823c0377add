#pragma once

#include "base/error.h"

namespace onggi::cli {

// What the program ends with; scripts rely on them (see --help).
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotFound = 3;
inline constexpr int kExitPermission = 4;
inline constexpr int kExitUnreachable = 5;
inline constexpr int kExitPartial = 6;
inline constexpr int kExitInterrupted = 130;

inline constexpr const char* kExitCodesHelp =
    "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 not found; 4 not allowed or no valid token;\n"
    "5 daemon not reachable or not available; 6 some files of a transfer failed; 130 interrupted.";

int exit_code_of(ErrorCode code);

}  // namespace onggi::cli
