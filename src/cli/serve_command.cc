#include <array>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/exit_codes.h"
#include "cli/session.h"

namespace onggi::cli {

namespace {

// onggid from the same installation, else the first on the PATH.
std::string find_daemon() {
  std::error_code ignored;
  const auto beside =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "onggid";
  return access(beside.c_str(), X_OK) == 0 ? beside.string() : "onggid";
}

Result<int> serve(const std::vector<std::string>& arguments) {
  const std::string program = find_daemon();
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(program.c_str(), pointers.data());
  return tl::unexpected(
      error_from_errno(errno, fmt::format("cannot start '{}', the daemon", program)));
}

}  // namespace

void add_serve_command(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("serve", "Run the daemon here (onggid), until ctrl-C");
  command->prefix_command();
  command->fallthrough(false);  // options of ours that onggid has too are meant for it
  command->footer(
      "Everything after `serve` goes to onggid:\n"
      "  --config FILE   settings (onggid --print-config writes all of them)\n"
      "  --data FOLDER   where catalog, admin token and the default volume live\n"
      "  --address ADDR  --port PORT   where to listen; 127.0.0.1 and 6020 unless told otherwise\n"
      "  --set KEY=VALUE any other setting");
  session.on(command, [command](Session&) { return serve(command->remaining()); });
}

}  // namespace onggi::cli
