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

struct VFolderOptions {
  std::string vfolder;
  std::string other;  // a new name, or a tenant
  std::string quota_scope;
  std::string volume;
  bool writable = false;
  bool yes = false;
};

constexpr const char* kVFolderHelp = "onggi://volume/vfolder, volume/vfolder, or its name";

std::string url_of(const json::value& vfolder) {
  return fmt::format("onggi://{}/{}", text_of(vfolder, "volume"), text_of(vfolder, "name"));
}

std::string describe(const json::value& vfolder) {
  return fmt::format(
      "vfolder      {}\nid           {}\npermission   {}\nquota scope  {}\ntenant       {}\n"
      "created      {}\n",
      url_of(vfolder), text_of(vfolder, "id"), text_of(vfolder, "permission"),
      text_of(vfolder, "quota_scope"), text_of(vfolder, "tenant"), text_of(vfolder, "created"));
}

std::string target_of(const json::value& vfolder, std::string_view rest = "") {
  return fmt::format("/v1/vfolders/{}{}", text_of(vfolder, "id"), rest);
}

Result<int> create(Session& session, const VFolderOptions& options) {
  ASSIGN_OR_RETURN(const VFolderRef ref, parse_vfolder(session, options.vfolder));
  json::object body{{"volume", ref.volume}, {"name", ref.name}};
  if (!options.quota_scope.empty()) body["quota_scope"] = options.quota_scope;
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value vfolder, client->call("POST", "/v1/vfolders", body));
  session.print(vfolder, fmt::format("Made {} ({})", url_of(vfolder), text_of(vfolder, "id")));
  return kExitOk;
}

Result<int> list(Session& session, const VFolderOptions& options) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  std::string target = "/v1/vfolders";
  if (!options.volume.empty()) target += "?volume=" + percent_encode(options.volume);
  ASSIGN_OR_RETURN(const json::array items, client->call_all(target));
  Table table({{"VFOLDER"}, {"PERMISSION"}, {"CREATED"}, {"ID"}});
  for (const json::value& vfolder : items) {
    table.add({url_of(vfolder), text_of(vfolder, "permission"), text_of(vfolder, "created"),
               text_of(vfolder, "id")});
  }
  session.print({{"items", items}},
                items.empty() ? "No vfolders. `onggi vfolder create VOLUME/NAME` makes one."
                              : table.text(session.out()));
  return kExitOk;
}

Result<int> show(Session& session, const VFolderOptions& options) {
  ASSIGN_OR_RETURN(json::value vfolder, find_vfolder(session, options.vfolder));
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  std::string text = describe(vfolder);
  // Only owners may see who else has it.
  if (const auto shares = client->call("GET", target_of(vfolder, "/shares")); shares) {
    vfolder.as_object()["shares"] = member(*shares, "items");
    if (const json::array* items = member(*shares, "items").if_array(); items != nullptr) {
      for (const json::value& share : *items) {
        text += fmt::format("shared with  {} ({})\n", text_of(share, "tenant"),
                            text_of(share, "permission"));
      }
    }
  }
  session.print(vfolder, text);
  return kExitOk;
}

Result<int> rename(Session& session, const VFolderOptions& options) {
  ASSIGN_OR_RETURN(const json::value vfolder, find_vfolder(session, options.vfolder));
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value renamed,
                   client->call("PATCH", target_of(vfolder), {{"name", options.other}}));
  session.print(renamed, fmt::format("{} is now {}", url_of(vfolder), url_of(renamed)));
  return kExitOk;
}

Result<int> usage(Session& session, const VFolderOptions& options) {
  ASSIGN_OR_RETURN(const json::value vfolder, find_vfolder(session, options.vfolder));
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value usage, client->call("GET", target_of(vfolder, "/usage")));
  const auto bytes = [&](std::string_view key) {
    return fmt::format("{} ({} bytes)", human_size(number_of(usage, key)),
                       exact(number_of(usage, key)));
  };
  session.print(
      usage, fmt::format("files        {}\ndirectories  {}\nsymlinks     {}\n"
                         "size         {}\non disk      {}\n",
                         exact(number_of(usage, "files")), exact(number_of(usage, "directories")),
                         exact(number_of(usage, "symlinks")), bytes("size_bytes"),
                         bytes("allocated_bytes")));
  return kExitOk;
}

Result<int> remove(Session& session, const VFolderOptions& options) {
  ASSIGN_OR_RETURN(const json::value vfolder, find_vfolder(session, options.vfolder));
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  if (!options.yes) {
    const std::string question =
        fmt::format("Delete {} and everything in it? This cannot be undone.", url_of(vfolder));
    if (!confirm(session, question)) {
      return fail(ErrorCode::invalid_argument,
                  "nothing was deleted: answer y, or give --yes where nobody can answer");
    }
  }
  RETURN_IF_ERROR(client->call("DELETE", target_of(vfolder)));
  session.print({{"deleted", member(vfolder, "id")}}, fmt::format("Deleted {}", url_of(vfolder)));
  return kExitOk;
}

Result<int> share(Session& session, const VFolderOptions& options) {
  ASSIGN_OR_RETURN(const json::value vfolder, find_vfolder(session, options.vfolder));
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  const char* permission = options.writable ? "read_write" : "read_only";
  ASSIGN_OR_RETURN(
      const json::value share,
      client->call("PUT", target_of(vfolder, "/shares/" + percent_encode(options.other)),
                   {{"permission", permission}}));
  session.print(share,
                fmt::format("{} may now use {} ({})", options.other, url_of(vfolder), permission));
  return kExitOk;
}

Result<int> unshare(Session& session, const VFolderOptions& options) {
  ASSIGN_OR_RETURN(const json::value vfolder, find_vfolder(session, options.vfolder));
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  RETURN_IF_ERROR(
      client->call("DELETE", target_of(vfolder, "/shares/" + percent_encode(options.other))));
  session.print({{"unshared", options.other}},
                fmt::format("{} may no longer use {}", options.other, url_of(vfolder)));
  return kExitOk;
}

}  // namespace

void add_vfolder_commands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("vfolder", "The folders that tenants own");
  group->require_subcommand(1);
  // Lives as long as the commands that fill and read it.
  const auto options = std::make_shared<VFolderOptions>();
  const auto add = [&](const char* name, const char* help,
                       Result<int> (*function)(Session&, const VFolderOptions&)) {
    CLI::App* command = group->add_subcommand(name, help);
    if (std::string_view(name) != "list") {
      command->add_option("vfolder", options->vfolder, kVFolderHelp)->required();
    }
    session.on(command, [options, function](Session& s) { return function(s, *options); });
    return command;
  };
  add("create", "Make an empty vfolder", create)
      ->add_option("--quota-scope", options->quota_scope, "The id it counts against");
  add("list", "Those you own or were given", list)
      ->add_option("--volume", options->volume, "Only those of this volume");
  add("show", "One vfolder and who else may use it", show);
  add("rename", "Give it another name; nothing moves on the disk", rename)
      ->add_option("name", options->other, "The new name")
      ->required();
  add("usage", "Exact bytes and counts, by walking", usage);
  add("delete", "Remove it and everything in it", remove)
      ->add_flag("--yes,-y", options->yes, "Do not ask");
  CLI::App* sharing = add("share", "Let another tenant use it, read-only unless told", share);
  sharing->add_option("tenant", options->other, "The tenant's id or name")->required();
  sharing->add_flag("--write,-w", options->writable, "Let it change files too");
  add("unshare", "Take that back", unshare)
      ->add_option("tenant", options->other, "The tenant's id or name")
      ->required();
}

}  // namespace onggi::cli
