#pragma once

#include "cli/session.h"

namespace onggi::cli {

// Parses the command line, runs what it says, reports an error, returns the exit code.
int run_program(Session& session, int argc, char** argv);

}  // namespace onggi::cli
