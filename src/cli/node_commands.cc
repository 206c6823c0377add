#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/exit_codes.h"
#include "cli/session.h"

namespace onggi::cli {

namespace json = boost::json;

namespace {

std::string profiles_of(const json::value& node) {
  std::string text;
  const json::array* profiles = member(node, "profiles").if_array();
  if (profiles == nullptr || profiles->empty()) return "  none\n";
  for (const json::value& profile : *profiles) {
    const bool ready = member(profile, "ready") == json::value(true);
    const std::string failure = text_of(profile, "failure");
    text += fmt::format("  {:<8} {}", text_of(profile, "name"),
                        !failure.empty() ? "failed: " + failure
                        : ready          ? "warm"
                                         : "starts at its first task");
    if (const json::object* packages = member(profile, "packages").if_object();
        packages != nullptr && !packages->empty()) {
      text += fmt::format(", {} packages", packages->size());
      for (const char* name : {"python", "torch", "numpy"}) {
        if (const std::string version = text_of(*packages, name); !version.empty()) {
          text += fmt::format(", {} {}", name, version);
        }
      }
    }
    text += "\n";
  }
  return text;
}

std::string sandbox_of(const Session& session, const json::value& node) {
  const json::value& sandbox = member(node, "sandbox");
  const bool ok = member(sandbox, "ok") == json::value(true);
  std::string text =
      fmt::format("sandbox   {}\n", ok ? session.out().paint("ready", Tone::good)
                                       : session.out().paint("tasks are refused", Tone::bad));
  if (const json::array* items = member(sandbox, "items").if_array(); items != nullptr) {
    for (const json::value& item : *items) {
      const bool available = member(item, "available") == json::value(true);
      text += fmt::format("  {} {:<16} {}\n",
                          available ? session.out().paint("✓", Tone::good)
                                    : session.out().paint("✗", Tone::warning),
                          text_of(item, "name"), text_of(item, "detail"));
    }
  }
  return text;
}

Result<int> show(Session& session) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value node, client->call("GET", "/v1/node"));
  session.print(
      node, fmt::format("node      {} ({})\ndaemon    {} at {}\nCPUs      {}\nmemory    {}, {} "
                        "available\nworkers   {} at most, {} tasks now\nprofiles\n{}{}",
                        text_of(node, "name"), text_of(node, "tier"), text_of(node, "version"),
                        client->connection().display(), number_of(node, "cpus"),
                        human_size(number_of(node, "memory_bytes")),
                        human_size(number_of(node, "memory_available_bytes")),
                        number_of(node, "workers_max"), number_of(node, "tasks"), profiles_of(node),
                        sandbox_of(session, node)));
  return kExitOk;
}

Result<int> list(Session& session) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value node, client->call("GET", "/v1/node"));
  Table table({{"NODE"},
               {"TIER"},
               {"VERSION"},
               {.heading = "CPUS", .is_number = true},
               {.heading = "MEMORY", .is_number = true},
               {.heading = "TASKS", .is_number = true},
               {"AT"}});
  table.add({text_of(node, "name"), text_of(node, "tier"), text_of(node, "version"),
             text_of(node, "cpus"), human_size(number_of(node, "memory_bytes")),
             text_of(node, "tasks"), client->connection().display()});
  session.print({{"items", json::array{node}}}, table.text(session.out()));
  return kExitOk;
}

}  // namespace

void add_node_commands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("node", "What a node is, has and can run");
  group->require_subcommand(1);
  session.on(group->add_subcommand("show", "The node in detail"), show);
  session.on(group->add_subcommand("list", "The nodes that this client knows"), list);
}

}  // namespace onggi::cli
