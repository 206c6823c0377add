#include <memory>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/encoding.h"
#include "cli/exit_codes.h"
#include "cli/session.h"

namespace onggi::cli {

namespace json = boost::json;

namespace {

struct VolumeOptions {
  std::string name;
  std::string path;
  std::string backend = "posix";
  std::vector<std::string> options;
};

std::string free_of(const json::value& volume) {
  const json::value& space = member(volume, "space");
  if (space.is_null()) return "-";
  return fmt::format("{} of {}", human_size(number_of(space, "available_bytes")),
                     human_size(number_of(space, "total_bytes")));
}

std::string joined(const json::value& list) {
  std::string out;
  if (const json::array* items = list.if_array(); items != nullptr) {
    for (const json::value& item : *items) {
      const json::string* text = item.if_string();
      if (text == nullptr) continue;
      if (!out.empty()) out += ", ";
      out += printable(std::string_view(*text));
    }
  }
  return out;
}

Result<int> list_volumes(Session& session) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value answer, client->call("GET", "/v1/volumes"));
  Table table({{"VOLUME"}, {"BACKEND"}, {"FREE"}, {"STATE"}});
  if (const json::array* items = member(answer, "items").if_array(); items != nullptr) {
    for (const json::value& volume : *items) {
      const std::string error = text_of(volume, "error");
      table.add({text_of(volume, "name"), text_of(volume, "backend"), free_of(volume),
                 error.empty() ? "ok" : error});
    }
  }
  session.print(answer, table.rows() == 0 ? "No volumes. `onggi volume add NAME FOLDER` adds one."
                                          : table.text(session.out()));
  return kExitOk;
}

std::string describe(const json::value& volume) {
  std::string text =
      fmt::format("volume        {}\nbackend       {}\nfree          {}\n", text_of(volume, "name"),
                  text_of(volume, "backend"), free_of(volume));
  text += fmt::format("capabilities  {}\n", joined(member(volume, "capabilities")));
  if (const json::object* options = member(volume, "options").if_object(); options != nullptr) {
    for (const auto& [key, value] : *options) {
      text += fmt::format("{:<13} {}\n", std::string_view(key), text_of(*options, key));
    }
  }
  if (const std::string error = text_of(volume, "error"); !error.empty()) {
    text += fmt::format("error         {}\n", error);
  }
  return text;
}

Result<int> add_volume(Session& session, const VolumeOptions& options) {
  json::object settings;
  if (!options.path.empty()) settings["path"] = options.path;
  for (const std::string& option : options.options) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos) {
      return fail(ErrorCode::invalid_argument, fmt::format("--option {}: write KEY=VALUE", option));
    }
    settings[option.substr(0, equals)] = option.substr(equals + 1);
  }
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value volume, client->call("POST", "/v1/volumes",
                                                          {{"name", options.name},
                                                           {"backend", options.backend},
                                                           {"options", std::move(settings)}}));
  session.print(volume, describe(volume));
  return kExitOk;
}

Result<int> show_volume(Session& session, const std::string& name) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value volume,
                   client->call("GET", "/v1/volumes/" + percent_encode(name)));
  session.print(volume, describe(volume));
  return kExitOk;
}

Result<int> remove_volume(Session& session, const std::string& name) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  RETURN_IF_ERROR(client->call("DELETE", "/v1/volumes/" + percent_encode(name)));
  session.print({{"removed", name}},
                fmt::format("Volume {} is forgotten; its storage is as it was.", name));
  return kExitOk;
}

}  // namespace

void add_volume_commands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("volume", "Storage systems of the node");
  group->require_subcommand(1);
  // Lives as long as the commands that fill and read it.
  const auto options = std::make_shared<VolumeOptions>();

  session.on(group->add_subcommand("list", "All volumes and their space"), list_volumes);

  CLI::App* add = group->add_subcommand("add", "Open a storage system as a volume and keep it");
  add->add_option("name", options->name, "What to call it")->required();
  add->add_option("path", options->path, "Its folder, on the daemon's machine");
  add->add_option("--backend", options->backend, "The driver")->capture_default_str();
  add->add_option("--option", options->options, "KEY=VALUE of the driver; may be repeated");
  session.on(add, [options](Session& s) { return add_volume(s, *options); });

  CLI::App* show = group->add_subcommand("show", "One volume");
  show->add_option("name", options->name)->required();
  session.on(show, [options](Session& s) { return show_volume(s, options->name); });

  CLI::App* remove =
      group->add_subcommand("remove", "Forget a volume that holds no vfolder; its files stay");
  remove->add_option("name", options->name)->required();
  session.on(remove, [options](Session& s) { return remove_volume(s, options->name); });
}

}  // namespace onggi::cli
