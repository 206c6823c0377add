#include "cli/program.h"

#include <algorithm>
#include <vector>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/exit_codes.h"

namespace onggi::cli {

namespace json = boost::json;

namespace {

constexpr std::string_view kVersion = "0.1.0";

Result<int> show_version(Session& session) {
  json::object document{{"onggi", kVersion}};
  std::string text = fmt::format("onggi {}", kVersion);
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  // A daemon that is not there is no reason to fail: most people ask for this program's version.
  client::Client impatient(client->connection(), session.clock(), {.attempts_max = 1});
  if (const auto daemon = impatient.call("GET", "/v1/version"); daemon) {
    document["daemon"] = *daemon;
    text += fmt::format("\nonggid {} at {} (node {}, API {})", text_of(*daemon, "version"),
                        client->connection().display(), text_of(*daemon, "node"),
                        text_of(*daemon, "api"));
  } else {
    document["daemon"] = nullptr;
    text += fmt::format("\nno daemon at {}", client->connection().display());
  }
  session.print(document, text);
  return kExitOk;
}

void add_shared_options(CLI::App& app, Session& session) {
  app.add_option("--url", session.connection.url,
                 "The daemon: http://, https:// or unix:///path. Else ONGGI_URL, the profile, "
                 "this machine's own");
  app.add_option("--token", session.connection.token,
                 "How to be let in. Better in ONGGI_TOKEN or a profile, where `ps` shows it to "
                 "nobody");
  app.add_option("--profile", session.connection.profile,
                 "A table [profiles.NAME] of ~/.config/onggi/config.toml with url and token");
  app.add_flag("--json", session.json, "Print one JSON document instead of text");
  app.add_flag("--quiet,-q", session.quiet, "Show no progress");
}

// The first word that is no known command, where one was expected.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word.starts_with('-')) return "";
    const auto subcommands = at->get_subcommands([](const CLI::App*) { return true; });
    if (subcommands.empty()) return "";
    const auto found = std::ranges::find(subcommands, word, &CLI::App::get_name);
    if (found == subcommands.end()) return word;
    at = *found;
  }
  return "";
}

const CLI::App* where_unknown(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    const auto subcommands = at->get_subcommands([](const CLI::App*) { return true; });
    const auto found = std::ranges::find(subcommands, std::string(argv[i]), &CLI::App::get_name);
    if (found == subcommands.end()) break;
    at = *found;
  }
  return at;
}

int report_usage(const Session& session, const CLI::App& app, const CLI::ParseError& error,
                 int argc, char** argv) {
  std::string message = error.what();
  const CLI::App* at = where_unknown(app, argc, argv);
  if (const std::string word = unknown_command(app, argc, argv); !word.empty()) {
    std::vector<std::string> names;
    for (const CLI::App* known : at->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(known->get_name());
    }
    message = fmt::format("'{}' is not a command", word);
    if (const auto meant = client::closest(word, names)) {
      message += fmt::format("; did you mean '{}'?", *meant);
    }
  }
  std::string path = at->get_name();
  for (const CLI::App* up = at->get_parent(); up != nullptr; up = up->get_parent()) {
    path = up->get_name() + " " + path;
  }
  return session.report(
      Error(ErrorCode::invalid_argument, fmt::format("{}{} `{} --help` tells more", message,
                                                     message.ends_with('?') ? "" : ".", path)));
}

}  // namespace

int run_program(Session& session, int argc, char** argv) {
  CLI::App app("Onggi: vfolders, files and data loaders that run where the data lies.", "onggi");
  app.require_subcommand(1);
  app.fallthrough();
  app.get_formatter()->column_width(34);
  add_shared_options(app, session);
  add_serve_command(app, session);
  add_volume_commands(app, session);
  add_vfolder_commands(app, session);
  add_file_commands(app, session);
  add_copy_command(app, session);
  add_token_commands(app, session);
  add_tenant_commands(app, session);
  add_node_commands(app, session);
  add_doctor_command(app, session);
  add_bench_commands(app, session);
  add_completion_command(app, session);
  session.on(app.add_subcommand("version", "Versions of this program and of the daemon"),
             show_version);
  app.footer(kExitCodesHelp);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    // --json may stand behind what could not be parsed.
    session.json = session.json || std::any_of(argv, argv + argc, [](const char* word) {
                     return std::string_view(word) == "--json";
                   });
    return report_usage(session, app, error, argc, argv);
  }
  const Result<int> code = session.run();
  return code ? *code : session.report(code.error());
}

}  // namespace onggi::cli
