#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>
#include <sys/stat.h>

#include "cli/exit_codes.h"
#include "cli/progress_bar.h"
#include "cli/session.h"
#include "client/download.h"
#include "client/upload.h"

namespace onggi::cli {

namespace json = boost::json;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kWarningsShown = 10;

struct CopyOptions {
  std::string source;
  std::string destination;
  bool recursive = false;
  bool verify = false;
  bool force = false;
  bool create = false;
  std::size_t jobs = 4;
};

using Transfer = std::function<Result<client::TransferSummary>(const client::TransferOptions&)>;

struct Ends {
  std::string from;
  std::string to;
};

json::object to_json(const client::TransferSummary& summary, const Ends& ends, double seconds) {
  json::array failures;
  for (const client::TransferFailure& failure : summary.failures) {
    failures.push_back({{"path", failure.path},
                        {"code", to_string(failure.error.code())},
                        {"message", failure.error.message()}});
  }
  json::array warnings;
  for (const std::string& warning : summary.warnings) warnings.push_back(json::string(warning));
  return {{"from", ends.from},
          {"to", ends.to},
          {"files", summary.files},
          {"size_bytes", summary.size_bytes},
          {"files_skipped", summary.files_skipped},
          {"bytes_resumed", summary.bytes_resumed},
          {"seconds", seconds},
          {"warnings", std::move(warnings)},
          {"failures", std::move(failures)}};
}

std::string describe(const client::TransferSummary& summary, const Ends& ends, double seconds) {
  const auto rate = static_cast<std::uint64_t>(
      static_cast<double>(summary.size_bytes - summary.bytes_resumed) / std::max(seconds, 1e-3));
  std::string text = fmt::format("{} → {}: {} {}, {} ({} bytes) in {}, {}/s", ends.from, ends.to,
                                 exact(summary.files), summary.files == 1 ? "file" : "files",
                                 human_size(summary.size_bytes), exact(summary.size_bytes),
                                 human_duration(seconds), human_size(rate));
  if (summary.bytes_resumed > 0) {
    text += fmt::format("; {} of them were there from an earlier attempt",
                        human_size(summary.bytes_resumed));
  }
  if (summary.files_skipped > 0) {
    text += fmt::format("; {} already there", exact(summary.files_skipped));
  }
  return text;
}

// Lists at most a few, then counts: nobody reads ten thousand lines.
template <typename Items, typename Show>
void show_some(const Items& items, const Show& show, std::string_view what) {
  for (std::size_t i = 0; i < std::min(items.size(), kWarningsShown); ++i) show(items[i]);
  if (items.size() > kWarningsShown) {
    fmt::print(stderr, "… and {} more {}\n", items.size() - kWarningsShown, what);
  }
}

Result<int> run_transfer(Session& session, const CopyOptions& options, const Ends& ends,
                         const Transfer& transfer) {
  catch_interrupts();
  ProgressBar bar(session.err(), session.clock(), !session.quiet && !session.json);
  const client::TransferOptions transfer_options{
      .jobs = options.jobs,
      .verify = options.verify,
      .force = options.force,
      .state_folder = client::cache_folder_path(client::Surroundings::of_process()) + "/transfers",
      .progress = [&bar](const client::Progress& progress) { bar.show(progress); },
      .cancelled = interrupted};
  const Result<client::TransferSummary> summary = transfer(transfer_options);
  bar.finish();
  if (!summary && summary.error().code() == ErrorCode::cancelled) {
    return fail(ErrorCode::cancelled, "interrupted; the same command goes on from here");
  }
  RETURN_IF_ERROR(summary);
  session.print(to_json(*summary, ends, bar.seconds()), describe(*summary, ends, bar.seconds()));
  if (!session.json) {
    show_some(
        summary->warnings, [&](const std::string& text) { session.warn(printable(text)); },
        "warnings");
    show_some(
        summary->failures,
        [&](const client::TransferFailure& failure) {
          fmt::print(stderr, "{} {}: {}\n", session.err().paint("failed:", Tone::bad),
                     printable(failure.path), failure.error.message());
        },
        "failures");
  }
  return summary->failures.empty() ? kExitOk : kExitPartial;
}

// The vfolder of a destination; made when asked to.
Result<RemoteTarget> destination_target(Session& session, const CopyOptions& options) {
  Result<RemoteTarget> found = find_target(session, options.destination);
  if (found || !options.create || found.error().code() != ErrorCode::not_found) return found;
  ASSIGN_OR_RETURN(const client::RemoteUrl url, client::parse_remote_url(options.destination));
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  RETURN_IF_ERROR(
      client->call("POST", "/v1/vfolders", {{"volume", url.volume}, {"name", url.vfolder}}));
  return find_target(session, options.destination);
}

// Like cp: a file goes into a directory, or onto the name that is said.
std::string file_place(client::Client& client, const RemoteTarget& target,
                       const std::string& name) {
  const std::string& path = target.url.path;
  if (path.empty() || target.url.trailing_slash) return client::join_path(path, name);
  const auto there = client.stat(target.vfolder, path);
  return there && there->kind == "directory" ? client::join_path(path, name) : path;
}

Result<int> upload(Session& session, const CopyOptions& options) {
  struct stat info{};
  if (stat(options.source.c_str(), &info) != 0) return fail_errno(options.source);
  const bool tree = S_ISDIR(info.st_mode);
  if (tree && !options.recursive) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is a folder: use -r to copy what is in it", options.source));
  }
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const RemoteTarget target, destination_target(session, options));
  const std::string name = fs::path(options.source).filename().string();
  const client::RemotePlace place{target.vfolder,
                                  tree ? target.url.path : file_place(*client, target, name)};
  client::RemoteUrl final_url = target.url;
  final_url.path = place.path;
  return run_transfer(session, options, {options.source, final_url.to_string()},
                      [&](const client::TransferOptions& how) {
                        return tree ? client::upload_tree(*client, options.source, place, how)
                                    : client::upload_file(*client, options.source, place, how);
                      });
}

Result<int> download(Session& session, const CopyOptions& options) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const RemoteTarget source, find_target(session, options.source));
  const client::RemotePlace place{source.vfolder, source.url.path};
  bool tree = place.path.empty();
  if (!tree) {
    ASSIGN_OR_RETURN(const client::RemoteEntry entry, client->stat(place.vfolder, place.path));
    tree = entry.kind == "directory";
  }
  if (tree && !options.recursive) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is a directory: use -r to copy what is in it", options.source));
  }
  std::string local = options.destination;
  std::error_code ignored;
  if (!tree && (local.ends_with('/') || fs::is_directory(local, ignored))) {
    local = (fs::path(local) / fs::path(place.path).filename()).string();
  }
  return run_transfer(session, options, {options.source, local},
                      [&](const client::TransferOptions& how) {
                        return tree ? client::download_tree(*client, place, local, how)
                                    : client::download_file(*client, place, local, how);
                      });
}

Result<int> copy(Session& session, const CopyOptions& options) {
  const bool from_remote = client::is_remote_url(options.source);
  const bool to_remote = client::is_remote_url(options.destination);
  if (from_remote == to_remote) {
    return fail(ErrorCode::invalid_argument,
                from_remote ? "both ends are remote: copy to a local folder first"
                            : "neither end is remote: one of them looks like "
                              "onggi://volume/vfolder/path");
  }
  return from_remote ? download(session, options) : upload(session, options);
}

}  // namespace

void add_copy_command(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("cp", "Copy files between here and a vfolder");
  // Lives as long as the command that fills and reads it.
  const auto options = std::make_shared<CopyOptions>();
  command->add_option("source", options->source, "A local path, or onggi://volume/vfolder/path")
      ->required();
  command->add_option("destination", options->destination, "The same, at the other end")
      ->required();
  command->add_flag("-r,--recursive", options->recursive,
                    "Copy what is in a folder to below the destination");
  command->add_flag("--verify", options->verify,
                    "Read everything again at the end and compare checksums");
  command->add_flag("--force", options->force, "Copy also what is there already");
  command->add_flag("--create", options->create, "Make the vfolder if there is none");
  command->add_option("--jobs,-j", options->jobs, "Requests at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->footer(
      "onggi cp -r ./data onggi://local/fashion   what is in ./data becomes what is in fashion\n"
      "Files that are there with the same size and are not older are skipped. After ctrl-C the\n"
      "same command goes on. --verify compares checksums of everything at the end.");
  session.on(command, [options](Session& s) { return copy(s, *options); });
}

}  // namespace onggi::cli
