#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "cli/output.h"
#include "client/client.h"
#include "client/connection.h"
#include "client/remote_url.h"

namespace CLI {  // NOLINT(readability-identifier-naming): theirs
class App;
}

namespace onggi::cli {

// One run of the program: the options that all commands share, where output goes, the connection.
// One thread.
class Session {
 public:
  // Ends with the program's exit code, or an error that main reports.
  using Command = std::function<Result<int>(Session&)>;

  explicit Session(Clock& clock);

  client::ConnectionRequest connection;  // filled by the parser
  bool json = false;                     // one JSON document instead of text
  bool quiet = false;                    // no progress

  // Makes `command` what runs when `app` is chosen.
  void on(CLI::App* app, Command command);
  Result<int> run();

  // Connects when first called.
  Result<client::Client*> client();
  Clock& clock() { return clock_; }
  const Terminal& out() const { return out_; }
  const Terminal& err() const { return err_; }

  // To standard output: the JSON document or the text, whichever was asked for.
  void print(const boost::json::value& document, std::string_view text) const;
  void print_text(std::string_view text) const;
  // To standard error, for people, in JSON mode too.
  void warn(std::string_view text) const;
  // To standard error, as JSON in JSON mode. Returns the exit code.
  int report(const Error& error) const;

 private:
  Clock& clock_;
  const Terminal out_;
  const Terminal err_;
  Command command_;
  std::unique_ptr<client::Client> client_;
};

// A vfolder named on the command line: onggi://volume/vfolder, volume/vfolder, or just a name where
// the node has one volume.
struct VFolderRef {
  std::string volume;
  std::string name;
};
Result<VFolderRef> parse_vfolder(Session& session, const std::string& text);
// The same, looked up: its record.
Result<boost::json::value> find_vfolder(Session& session, const std::string& text);

// A path in a vfolder, looked up. invalid_argument when the URL names no vfolder.
struct RemoteTarget {
  client::RemoteUrl url;
  std::string vfolder;  // id
};
Result<RemoteTarget> find_target(Session& session, const std::string& text);

// Set by SIGINT and SIGTERM once catch_interrupts() was called.
bool interrupted();
void catch_interrupts();

// Asks on the terminal; false without one.
bool confirm(const Session& session, const std::string& question);

// The commands, one function per file.
void add_serve_command(CLI::App& app, Session& session);
void add_volume_commands(CLI::App& app, Session& session);
void add_vfolder_commands(CLI::App& app, Session& session);
void add_file_commands(CLI::App& app, Session& session);
void add_copy_command(CLI::App& app, Session& session);
void add_token_commands(CLI::App& app, Session& session);
void add_tenant_commands(CLI::App& app, Session& session);
void add_node_commands(CLI::App& app, Session& session);
void add_doctor_command(CLI::App& app, Session& session);
void add_bench_commands(CLI::App& app, Session& session);
void add_completion_command(CLI::App& app, Session& session);

}  // namespace onggi::cli
