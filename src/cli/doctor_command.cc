#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>
#include <sys/stat.h>

#include "cli/exit_codes.h"
#include "cli/machine_checks.h"
#include "cli/session.h"

namespace onggi::cli {

namespace json = boost::json;

namespace {

std::string_view to_string(Health health) {
  switch (health) {
    case Health::good:
      return "good";
    case Health::info:
      return "info";
    case Health::worse:
      return "worse";
    case Health::broken:
      return "broken";
  }
  return "unknown";
}

std::string mark_of(const Terminal& terminal, Health health) {
  switch (health) {
    case Health::good:
      return terminal.paint("✓", Tone::good);
    case Health::info:
      return terminal.paint("·", Tone::faint);
    case Health::worse:
      return terminal.paint("!", Tone::warning);
    case Health::broken:
      return terminal.paint("✗", Tone::bad);
  }
  return " ";
}

Finding check_daemon(Session& session) {
  const Result<client::Client*> client = session.client();
  if (!client) {
    return {.name = "daemon",
            .health = Health::broken,
            .found = client.error().message(),
            .cost = "nothing but local commands works",
            .remedy = "mend the named setting"};
  }
  client::Client impatient((*client)->connection(), session.clock(), {.attempts_max = 1});
  const auto version = impatient.call("GET", "/v1/version");
  if (version) {
    return {.name = "daemon",
            .found = fmt::format("onggid {} at {}", text_of(*version, "version"),
                                 impatient.connection().display())};
  }
  return {.name = "daemon",
          .health = Health::info,
          .found = fmt::format("none at {}", impatient.connection().display()),
          .cost = "nothing to talk to yet",
          .remedy = "onggi serve"};
}

Finding check_config_file() {
  const std::string path = client::config_file_path(client::Surroundings::of_process());
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) {
    return {.name = "profiles",
            .health = Health::info,
            .found = fmt::format("no {}: not needed for a daemon on this machine", path)};
  }
  if ((info.st_mode & (S_IRGRP | S_IROTH)) == 0) return {.name = "profiles", .found = path};
  return {.name = "profiles",
          .health = Health::worse,
          .found = fmt::format("others can read {}", path),
          .cost = "tokens in it are no secret",
          .remedy = fmt::format("chmod 600 {}", path)};
}

std::string describe(const Terminal& terminal, const Finding& finding) {
  std::string text =
      fmt::format("{} {:<18} {}\n", mark_of(terminal, finding.health), finding.name, finding.found);
  const std::string indent(21, ' ');
  if (!finding.cost.empty()) text += fmt::format("{}costs: {}\n", indent, finding.cost);
  if (!finding.remedy.empty()) {
    text += fmt::format("{}{}\n", indent, terminal.paint("remedy: " + finding.remedy, Tone::faint));
  }
  return text;
}

Result<int> examine(Session& session, std::string data_folder) {
  if (data_folder.empty()) {
    data_folder = client::data_folder_path(client::Surroundings::of_process());
  }
  std::vector<Finding> findings = examine_machine(data_folder);
  findings.push_back(check_daemon(session));
  findings.push_back(check_config_file());
  json::array items;
  std::string text;
  for (const Finding& finding : findings) {
    items.push_back({{"name", finding.name},
                     {"health", to_string(finding.health)},
                     {"found", finding.found},
                     {"cost", finding.cost},
                     {"remedy", finding.remedy}});
    text += describe(session.out(), finding);
  }
  const auto count = [&](Health health) {
    return std::ranges::count(findings, health, &Finding::health);
  };
  text += fmt::format("\n{} good, {} could be better, {} in the way.\n", count(Health::good),
                      count(Health::worse), count(Health::broken));
  session.print({{"items", std::move(items)}}, text);
  return count(Health::broken) == 0 ? kExitOk : kExitFailure;
}

}  // namespace

void add_doctor_command(CLI::App& app, Session& session) {
  CLI::App* command =
      app.add_subcommand("doctor", "What this machine has, what it lacks and what that costs");
  // Lives as long as the command that fills and reads it.
  const auto data_folder = std::make_shared<std::string>();
  command->add_option("--data", *data_folder, "The daemon's data folder, if not the default");
  command->footer("Ends with 1 when something is in the way of running tasks or the daemon.");
  session.on(command, [data_folder](Session& s) { return examine(s, *data_folder); });
}

}  // namespace onggi::cli
