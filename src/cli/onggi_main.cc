#include "base/clock.h"
#include "cli/program.h"
#include "cli/session.h"

int main(int argc, char** argv) {
  onggi::SystemClock clock;
  onggi::cli::Session session(clock);
  return onggi::cli::run_program(session, argc, argv);
}
