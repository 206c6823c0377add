#include "cli/session.h"

#include <csignal>
#include <iostream>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/encoding.h"
#include "cli/exit_codes.h"

namespace onggi::cli {

namespace json = boost::json;

namespace {

// The one thing that a signal handler can talk to.
volatile std::sig_atomic_t signal_seen = 0;

void on_signal(int signal) {
  signal_seen = 1;
  // The second one means it: the default action ends the program at once.
  std::signal(signal, SIG_DFL);
}

void write(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace

int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return kExitUsage;
    case ErrorCode::not_found:
      return kExitNotFound;
    case ErrorCode::unauthenticated:
    case ErrorCode::permission_denied:
      return kExitPermission;
    case ErrorCode::unavailable:
      return kExitUnreachable;
    case ErrorCode::cancelled:
      return kExitInterrupted;
    default:
      return kExitFailure;
  }
}

Session::Session(Clock& clock)
    : clock_(clock), out_(Terminal::of(STDOUT_FILENO)), err_(Terminal::of(STDERR_FILENO)) {}

void Session::on(CLI::App* app, Command command) {
  app->callback([this, command = std::move(command)] { command_ = command; });
}

Result<int> Session::run() {
  if (!command_) return kExitOk;
  return command_(*this);
}

Result<client::Client*> Session::client() {
  if (!client_) {
    ASSIGN_OR_RETURN(client::Connection found,
                     client::resolve_connection(connection, client::Surroundings::of_process()));
    client_ = std::make_unique<client::Client>(std::move(found), clock_);
  }
  return client_.get();
}

void Session::print(const json::value& document, std::string_view text) const {
  if (json) {
    write(stdout, pretty(document));
  } else {
    print_text(text);
  }
}

void Session::print_text(std::string_view text) const {
  if (json || text.empty()) return;
  write(stdout, text);
  if (!text.ends_with('\n')) write(stdout, "\n");
}

void Session::warn(std::string_view text) const {
  write(stderr, fmt::format("{} {}\n", err_.paint("warning:", Tone::warning), text));
}

int Session::report(const Error& error) const {
  const int code = exit_code_of(error.code());
  if (json) {
    write(stderr, pretty({{"error",
                           {{"code", to_string(error.code())},
                            {"message", error.message()},
                            {"exit_code", code}}}}));
  } else {
    write(stderr, fmt::format("{} {}\n", err_.paint("onggi:", Tone::bad), error.message()));
  }
  return code;
}

Result<VFolderRef> parse_vfolder(Session& session, const std::string& text) {
  ASSIGN_OR_RETURN(const client::RemoteUrl url, client::parse_remote_url(text));
  if (!url.path.empty()) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("'{}' names a path in a vfolder; here the vfolder alone is meant: {}", text,
                    client::RemoteUrl{.volume = url.volume, .vfolder = url.vfolder}.to_string()));
  }
  if (!url.vfolder.empty()) return VFolderRef{url.volume, url.vfolder};
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value volumes, client->call("GET", "/v1/volumes"));
  const json::array* items = member(volumes, "items").if_array();
  if (items != nullptr && items->size() == 1) {
    return VFolderRef{text_of(items->front(), "name"), url.volume};
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("'{}' does not say on which volume: write volume/{}", text, text));
}

Result<json::value> find_vfolder(Session& session, const std::string& text) {
  ASSIGN_OR_RETURN(const VFolderRef ref, parse_vfolder(session, text));
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const std::string id, client->find_vfolder(ref.volume, ref.name));
  return client->call("GET", "/v1/vfolders/" + id);
}

Result<RemoteTarget> find_target(Session& session, const std::string& text) {
  ASSIGN_OR_RETURN(client::RemoteUrl url, client::parse_remote_url(text));
  if (url.vfolder.empty()) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("'{}' names no vfolder; it looks like onggi://volume/vfolder/path", text));
  }
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(std::string id, client->find_vfolder(url.volume, url.vfolder));
  return RemoteTarget{std::move(url), std::move(id)};
}

bool interrupted() {
  return signal_seen != 0;
}

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

bool confirm(const Session& session, const std::string& question) {
  if (!session.err().is_terminal || isatty(STDIN_FILENO) != 1) return false;
  write(stderr, question + " [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace onggi::cli
