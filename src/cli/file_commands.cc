#include <algorithm>
#include <ctime>
#include <memory>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "cli/exit_codes.h"
#include "cli/session.h"

namespace onggi::cli {

namespace json = boost::json;

namespace {

struct FileOptions {
  std::string url;
  std::string destination;
  std::vector<std::string> urls;
  bool detailed = false;
  bool recursive = false;
  bool parents = false;
  bool replace = false;
};

std::string local_time(UnixTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count();
  const std::time_t clock = seconds;
  std::tm parts{};
  localtime_r(&clock, &parts);
  return fmt::format("{:%Y-%m-%d %H:%M}", parts);
}

json::object to_json(const client::RemoteEntry& entry) {
  return {{"path", entry.path},
          {"kind", entry.kind},
          {"size_bytes", entry.size_bytes},
          {"modified", client::format_time(entry.modified)},
          {"mode", entry.mode},
          {"etag", entry.etag}};
}

std::string shown_name(const Session& session, const client::RemoteEntry& entry) {
  const std::string name = printable(entry.path);
  if (entry.kind == "directory") return session.out().paint(name + "/", Tone::strong);
  return entry.kind == "symlink" ? name + "@" : name;
}

std::string describe(const Session& session, const std::vector<client::RemoteEntry>& entries,
                     bool detailed) {
  std::string text;
  if (!detailed) {
    for (const client::RemoteEntry& entry : entries) text += shown_name(session, entry) + "\n";
    return text;
  }
  Table table({{.heading = "SIZE", .is_number = true},
               {.heading = "BYTES", .is_number = true},
               {"MODIFIED"},
               {"NAME"}});
  for (const client::RemoteEntry& entry : entries) {
    const bool file = entry.kind == "file";
    table.add({file ? human_size(entry.size_bytes) : "-", file ? exact(entry.size_bytes) : "-",
               local_time(entry.modified), shown_name(session, entry)});
  }
  return table.text(session.out());
}

// Without a vfolder in the URL: which there are.
Result<int> list_vfolders(Session& session, const std::string& volume) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  std::string target = "/v1/vfolders";
  if (!volume.empty()) target += "?volume=" + volume;
  ASSIGN_OR_RETURN(const json::array items, client->call_all(target));
  std::string text;
  for (const json::value& vfolder : items) {
    text += fmt::format("onggi://{}/{}\n", text_of(vfolder, "volume"), text_of(vfolder, "name"));
  }
  session.print({{"items", items}}, text);
  return kExitOk;
}

Result<int> list(Session& session, const FileOptions& options) {
  if (options.url.empty()) return list_vfolders(session, "");
  ASSIGN_OR_RETURN(const client::RemoteUrl url, client::parse_remote_url(options.url));
  if (url.vfolder.empty()) return list_vfolders(session, url.volume);
  ASSIGN_OR_RETURN(const RemoteTarget target, find_target(session, options.url));
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  std::vector<client::RemoteEntry> entries;
  bool single = false;
  if (!target.url.path.empty()) {
    ASSIGN_OR_RETURN(client::RemoteEntry entry, client->stat(target.vfolder, target.url.path));
    single = entry.kind != "directory";
    if (single) entries.push_back(std::move(entry));
  }
  if (!single) {
    ASSIGN_OR_RETURN(entries,
                     client->list(target.vfolder, target.url.path, options.recursive, interrupted));
  }
  json::array items;
  for (const client::RemoteEntry& entry : entries) items.push_back(to_json(entry));
  session.print({{"items", std::move(items)}}, describe(session, entries, options.detailed));
  return kExitOk;
}

Result<int> remove(Session& session, const FileOptions& options) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  json::array removed;
  std::string text;
  for (const std::string& url : options.urls) {
    ASSIGN_OR_RETURN(const RemoteTarget target, find_target(session, url));
    if (target.url.path.empty()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} is a whole vfolder: `onggi vfolder delete` removes those", url));
    }
    std::string request = client::vfolder_target(target.vfolder, "files", target.url.path);
    if (options.recursive) request += "?recursive=true";
    if (const auto answer = client->call("DELETE", request); !answer) {
      const bool full = answer.error().code() == ErrorCode::conflict && !options.recursive;
      return tl::unexpected(
          Error(answer.error().code(), fmt::format("{}: {}{}", url, answer.error().message(),
                                                   full ? "; use -r for directories" : "")));
    }
    removed.push_back(json::string(target.url.to_string()));
    text += fmt::format("Removed {}\n", target.url.to_string());
  }
  session.print({{"removed", std::move(removed)}}, text);
  return kExitOk;
}

Result<int> make_directory(Session& session, const FileOptions& options) {
  ASSIGN_OR_RETURN(const RemoteTarget target, find_target(session, options.url));
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  std::string request = client::vfolder_target(target.vfolder, "directories", target.url.path);
  if (options.parents) request += "?parents=true";
  ASSIGN_OR_RETURN(const json::value made, client->call("POST", request));
  session.print(made, fmt::format("Made {}", target.url.to_string()));
  return kExitOk;
}

Result<int> move(Session& session, const FileOptions& options) {
  ASSIGN_OR_RETURN(const RemoteTarget from, find_target(session, options.url));
  ASSIGN_OR_RETURN(const RemoteTarget to, find_target(session, options.destination));
  if (from.vfolder != to.vfolder) {
    return fail(ErrorCode::invalid_argument, "both must be in the same vfolder");
  }
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(
      const json::value moved,
      client->call("POST", fmt::format("/v1/vfolders/{}/moves", from.vfolder),
                   {{"from", from.url.path}, {"to", to.url.path}, {"replace", options.replace}}));
  session.print(moved, fmt::format("{} is now {}", from.url.to_string(), to.url.to_string()));
  return kExitOk;
}

}  // namespace

void add_file_commands(CLI::App& app, Session& session) {
  // Lives as long as the commands that fill and read it.
  const auto options = std::make_shared<FileOptions>();

  CLI::App* listing = app.add_subcommand("ls", "List a vfolder, or which vfolders there are");
  listing->add_option("url", options->url, "onggi://volume/vfolder/path");
  listing->add_flag("-l,--long", options->detailed, "With sizes and times");
  listing->add_flag("-R,--recursive", options->recursive, "Everything below");
  session.on(listing, [options](Session& s) { return list(s, *options); });

  CLI::App* removal = app.add_subcommand("rm", "Remove files and, with -r, directories");
  removal->add_option("url", options->urls, "onggi://volume/vfolder/path")->required();
  removal->add_flag("-r,--recursive", options->recursive, "Also directories with what is in them");
  session.on(removal, [options](Session& s) { return remove(s, *options); });

  CLI::App* creation = app.add_subcommand("mkdir", "Make a directory");
  creation->add_option("url", options->url, "onggi://volume/vfolder/path")->required();
  creation->add_flag("-p,--parents", options->parents,
                     "Make missing parents too; one that exists is fine");
  session.on(creation, [options](Session& s) { return make_directory(s, *options); });

  CLI::App* moving = app.add_subcommand("mv", "Rename or move within a vfolder, in one step");
  moving->add_option("from", options->url, "onggi://volume/vfolder/path")->required();
  moving->add_option("to", options->destination, "The new path, in the same vfolder")->required();
  moving->add_flag("--replace", options->replace, "Replace what is there");
  session.on(moving, [options](Session& s) { return move(s, *options); });
}

}  // namespace onggi::cli
