#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/result.h"
#include "daemon/config.h"
#include "daemon/wiring.h"

// The daemon's program: command line, signals, systemd's protocol. Everything else is in wiring.cc.
namespace {

using onggi::Result;
using onggi::Status;
using onggi::daemon::Config;
using onggi::daemon::Daemon;

struct Arguments {
  std::string config_file;
  std::string data;
  std::string address;
  std::string port;
  std::vector<std::string> set;
  bool print_config = false;
  bool check_config = false;
};

Result<Config> read_config(const Arguments& arguments) {
  Result<Config> config =
      onggi::daemon::load_config(arguments.config_file, onggi::daemon::onggi_environment());
  if (!config) return config;
  const auto set = [&](std::string_view key, const std::string& text, std::string_view option) {
    return text.empty() ? Status() : onggi::daemon::set_setting(*config, key, text, option);
  };
  RETURN_IF_ERROR(set("data.path", arguments.data, "--data"));
  RETURN_IF_ERROR(set("server.address", arguments.address, "--address"));
  RETURN_IF_ERROR(set("server.port", arguments.port, "--port"));
  for (const std::string& pair : arguments.set) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      return onggi::fail(onggi::ErrorCode::invalid_argument,
                         fmt::format("--set {}: write KEY=VALUE", pair));
    }
    RETURN_IF_ERROR(onggi::daemon::set_setting(*config, pair.substr(0, equals),
                                               pair.substr(equals + 1), "--set"));
  }
  return config;
}

// A connection is a descriptor, and an open vfolder another.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

sigset_t stop_signals() {
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// sd_notify(3), without the library.
void tell_systemd(std::string_view state) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here ever changes the environment
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || std::strlen(path) >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const onggi::FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&address), length);
}

int complain(const onggi::Error& error) {
  fmt::print(stderr, "onggid: {}\n", error.message());
  return error.code() == onggi::ErrorCode::invalid_argument ? 2 : 1;
}

void set_up_logging(const Config& config) {
  onggi::set_up_log(
      {.level = onggi::parse_log_level(config.log.level).value_or(onggi::LogLevel::info),
       .format = config.log.format == "json" ? onggi::LogFormat::json : onggi::LogFormat::text});
}

int serve(const Config& config) {
  const sigset_t signals = stop_signals();
  // Before the first thread, so that all inherit it and only sigwait() below sees them.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();

  const Result<std::unique_ptr<Daemon>> daemon = Daemon::start(config);
  if (!daemon) return complain(daemon.error());
  fmt::print("{}\n", (*daemon)->greeting());
  std::fflush(stdout);
  tell_systemd("READY=1");

  int signal = 0;
  sigwait(&signals, &signal);
  tell_systemd("STOPPING=1");
  LOG_INFO("stopping", {{"signal", signal}, {"grace_seconds", config.server.grace_seconds}});
  // Whoever is too impatient for the grace period signals again.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  const bool finished = (*daemon)->stop(std::chrono::seconds(config.server.grace_seconds));
  if (!finished) LOG_WARN("requests were cut when the grace period ended");
  return 0;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("The daemon of an Onggi node.", "onggid");
  app.add_option("-c,--config", arguments.config_file, "Settings file (see --print-config)");
  app.add_option("--data", arguments.data,
                 "Where catalog, token and default volume live (data.path)");
  app.add_option("--address", arguments.address, "Address to listen on (server.address)");
  app.add_option("--port", arguments.port, "Port to listen on, 0 for any (server.port)");
  app.add_option("--set", arguments.set, "KEY=VALUE: any other setting; may be repeated");
  app.add_flag("--print-config", arguments.print_config, "Print every setting with its default");
  app.add_flag("--check-config", arguments.check_config, "Check the settings and exit");
  app.set_version_flag("--version", std::string(onggi::daemon::version()));
  CLI11_PARSE(app, argc, argv);

  if (arguments.print_config) {
    fmt::print("{}", onggi::daemon::sample_toml());
    return 0;
  }
  const Result<Config> config = read_config(arguments);
  if (!config) return complain(config.error());
  if (arguments.check_config) {
    const Status checked = onggi::daemon::check_config(*config);
    if (!checked) return complain(checked.error());
    fmt::print("the settings are fine\n");
    return 0;
  }
  set_up_logging(*config);
  return serve(*config);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "onggid: %s\n", e.what());
    return 1;
  }
}
