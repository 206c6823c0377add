#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/random.h"
#include "cli/exit_codes.h"
#include "cli/session.h"
#include "client/download.h"
#include "client/upload.h"

namespace onggi::cli {

namespace json = boost::json;
namespace fs = std::filesystem;

namespace {

struct BenchOptions {
  std::string volume;
  std::string size = "256M";
  std::size_t files = 1000;
  std::size_t rounds = 3;
  std::size_t jobs = 4;
};

constexpr std::size_t kSmallFileBytes = 4096;

struct Measure {
  std::string name;
  std::string unit;   // "B" or an operation
  double amount = 0;  // per round
  std::vector<double> seconds = {};

  double median() const {
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
  double rate() const { return amount / median(); }
};

// What the bench makes and removes again, here and at the daemon.
struct Bench {
  Session& session;
  client::Client& client;
  const BenchOptions& options;
  std::string vfolder;
  fs::path folder;
  std::uint64_t size_bytes;

  client::TransferOptions transfer(std::size_t jobs) const {
    return {.jobs = jobs, .force = true, .cancelled = interrupted};
  }
  client::RemotePlace place(std::string path) const { return {vfolder, std::move(path)}; }
};

Status write_random(const fs::path& path, std::uint64_t size) {
  std::ofstream file(path, std::ios::binary);
  std::vector<std::byte> block(1 << 20);
  fill_random(block);
  while (size > 0 && file) {
    const std::uint64_t count = std::min<std::uint64_t>(size, block.size());
    // The stream takes characters; the bytes are the same.
    const void* bytes = block.data();
    file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
    size -= count;
  }
  file.close();
  if (!file) return fail(ErrorCode::storage_full, fmt::format("cannot write {}", path.string()));
  return {};
}

Status prepare(const Bench& bench) {
  fs::create_directories(bench.folder / "small");
  RETURN_IF_ERROR(write_random(bench.folder / "large", bench.size_bytes));
  for (std::size_t i = 0; i < bench.options.files; ++i) {
    RETURN_IF_ERROR(
        write_random(bench.folder / "small" / fmt::format("{:06}", i), kSmallFileBytes));
  }
  return {};
}

Status put_one_by_one(const Bench& bench) {
  client::UploadLimits single;
  single.batch_file_bytes_max = 0;
  RETURN_IF_ERROR(client::upload_tree(bench.client, (bench.folder / "small").string(),
                                      bench.place("singly"), bench.transfer(bench.options.jobs),
                                      single));
  return {};
}

Status stat_again_and_again(const Bench& bench) {
  for (std::size_t i = 0; i < bench.options.files; ++i) {
    RETURN_IF_ERROR(bench.client.stat(bench.vfolder, "large"));
  }
  return {};
}

using Step = std::function<Status(const Bench&)>;

std::vector<std::pair<Measure, Step>> steps_of(const Bench& bench) {
  const auto size = static_cast<double>(bench.size_bytes);
  const auto files = static_cast<double>(bench.options.files);
  const std::string small = fmt::format("{} KiB files", kSmallFileBytes >> 10);
  const auto done = [](const auto& result) -> Status {
    RETURN_IF_ERROR(result);
    return {};
  };
  return {
      {{"upload, durable, 1 connection", "B", size},
       [done](const Bench& b) {
         return done(client::upload_file(b.client, (b.folder / "large").string(), b.place("large"),
                                         b.transfer(1)));
       }},
      {{"download, 1 connection", "B", size},
       [done](const Bench& b) {
         return done(client::download_file(b.client, b.place("large"), (b.folder / "back").string(),
                                           b.transfer(1)));
       }},
      {{fmt::format("download, {} connections", bench.options.jobs), "B", size},
       [done](const Bench& b) {
         return done(client::download_file(b.client, b.place("large"), (b.folder / "back").string(),
                                           b.transfer(b.options.jobs)));
       }},
      {{fmt::format("upload {}, in batches", small), "file", files},
       [done](const Bench& b) {
         return done(client::upload_tree(b.client, (b.folder / "small").string(),
                                         b.place("batched"), b.transfer(b.options.jobs)));
       }},
      {{fmt::format("upload {}, one by one, durable", small), "file", files}, put_one_by_one},
      {{fmt::format("download {}", small), "file", files},
       [done](const Bench& b) {
         return done(client::download_tree(b.client, b.place("batched"),
                                           (b.folder / "tree").string(),
                                           b.transfer(b.options.jobs)));
       }},
      {{fmt::format("list {} entries", bench.options.files), "entry", files},
       [done](const Bench& b) { return done(b.client.list(b.vfolder, "batched", false)); }},
      {{"stat, one after the other", "call", files}, stat_again_and_again},
  };
}

std::string rate_of(const Measure& measure) {
  if (measure.unit == "B") {
    return fmt::format("{}/s", human_size(static_cast<std::uint64_t>(measure.rate())));
  }
  return fmt::format("{} {}/s", exact(static_cast<std::uint64_t>(measure.rate())), measure.unit);
}

Result<std::vector<Measure>> measure_all(const Bench& bench) {
  auto steps = steps_of(bench);
  // Rounds outside, steps inside: a slow moment of the machine hits all of them alike.
  for (std::size_t round = 0; round < bench.options.rounds; ++round) {
    for (auto& [measure, step] : steps) {
      if (interrupted()) return fail(ErrorCode::cancelled, "interrupted");
      if (!bench.session.quiet && !bench.session.json && bench.session.err().is_terminal) {
        fmt::print(stderr, "\r\033[Kround {} of {}: {}", round + 1, bench.options.rounds,
                   measure.name);
      }
      const SteadyTime begun = bench.session.clock().steady_now();
      RETURN_IF_ERROR(step(bench));
      measure.seconds.push_back(
          std::chrono::duration<double>(bench.session.clock().steady_now() - begun).count());
    }
  }
  if (bench.session.err().is_terminal && !bench.session.json) fmt::print(stderr, "\r\033[K");
  std::vector<Measure> measures;
  for (auto& [measure, step] : steps) measures.push_back(std::move(measure));
  return measures;
}

void show(const Session& session, const std::vector<Measure>& measures,
          const BenchOptions& options) {
  Table table({{"WHAT"},
               {.heading = "RATE", .is_number = true},
               {.heading = "MEDIAN", .is_number = true},
               {.heading = "BEST", .is_number = true},
               {.heading = "WORST", .is_number = true}});
  json::array items;
  for (const Measure& measure : measures) {
    const auto [best, worst] = std::ranges::minmax(measure.seconds);
    table.add({measure.name, rate_of(measure), fmt::format("{:.3f} s", measure.median()),
               fmt::format("{:.3f} s", best), fmt::format("{:.3f} s", worst)});
    items.push_back({{"name", measure.name},
                     {"unit", measure.unit},
                     {"amount", measure.amount},
                     {"per_second", measure.rate()},
                     {"seconds", json::value_from(measure.seconds)}});
  }
  session.print({{"size", options.size},
                 {"files", options.files},
                 {"rounds", options.rounds},
                 {"jobs", options.jobs},
                 {"items", std::move(items)}},
                table.text(session.out()) +
                    fmt::format("\n{} and {} files of 4 KiB, {} rounds, through the daemon with "
                                "all its checks.\n",
                                options.size, exact(options.files), options.rounds));
}

Result<int> bench_io(Session& session, const BenchOptions& options) {
  bool ok = false;
  const std::uint64_t size = parse_size(options.size, ok);
  if (!ok || size == 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--size {}: write 256M or 1G", options.size));
  }
  catch_interrupts();
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  const std::string name = "bench-" + random_token(6);
  ASSIGN_OR_RETURN(const VFolderRef ref,
                   options.volume.empty() ? parse_vfolder(session, name)
                                          : Result<VFolderRef>(VFolderRef{options.volume, name}));
  ASSIGN_OR_RETURN(
      const json::value vfolder,
      client->call("POST", "/v1/vfolders", {{"volume", ref.volume}, {"name", ref.name}}));
  const Bench bench{session,
                    *client,
                    options,
                    text_of(vfolder, "id"),
                    fs::temp_directory_path() / ("onggi-" + name),
                    size};
  Result<std::vector<Measure>> measures = std::vector<Measure>();
  if (Status prepared = prepare(bench); prepared) {
    measures = measure_all(bench);
  } else {
    measures = tl::unexpected(std::move(prepared).error());
  }
  std::error_code ignored;
  fs::remove_all(bench.folder, ignored);
  const auto deleted = client->call("DELETE", "/v1/vfolders/" + bench.vfolder);
  RETURN_IF_ERROR(measures);
  RETURN_IF_ERROR(deleted);
  show(session, *measures, options);
  return kExitOk;
}

}  // namespace

void add_bench_commands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("bench", "Measure this installation");
  group->require_subcommand(1);
  // Lives as long as the command that fills and reads it.
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* io = group->add_subcommand(
      "io", "Uploads, downloads and small files, in a vfolder of its own that is removed again");
  io->add_option("--volume", options->volume, "On which volume; the only one unless told");
  io->add_option("--size", options->size, "Of the large file")->capture_default_str();
  io->add_option("--files", options->files, "How many small files")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  io->add_option("--rounds", options->rounds, "The median of so many counts")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  io->add_option("--jobs,-j", options->jobs, "Requests at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  session.on(io, [options](Session& s) { return bench_io(s, *options); });
}

}  // namespace onggi::cli
