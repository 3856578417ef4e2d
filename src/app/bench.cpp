#include "app/bench.hpp"

#include "app/bench_database.hpp"

#include <semel/error.hpp>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>

namespace semel::app::bench {

namespace {

namespace fs = std::filesystem;

enum class On { any, sqlite, postgres };

struct Measurement {
  std::string_view name;
  void (*measure)(Bench&);
  On on = On::any;
  bool by_name_only = false;
};

constexpr auto measurements =
    std::to_array<Measurement>({{"disk", measure_disk},
                                {"latency", measure_latency},
                                {"throughput", measure_throughput},
                                {"position", measure_position_and_replay, On::sqlite},
                                {"parked", measure_parked, On::sqlite},
                                {"hooks", measure_hooks, On::sqlite},
                                {"starts", measure_starts},
                                {"serve", measure_serve, On::sqlite},
                                {"loads", measure_matrix},
                                {"nodes", measure_nodes, On::postgres},
                                {"idle", measure_idle, On::postgres},
                                {"large", measure_large, On::any, true}});

bool is_in_memory(const fs::path& directory) {
  constexpr std::int64_t tmpfs = 0x01021994;
  constexpr std::int64_t ramfs = 0x858458f6;
  struct statfs info{};
  if (::statfs(directory.c_str(), &info) != 0) return true;
  return info.f_type == tmpfs || info.f_type == ramfs;
}

/// Where nobody said: the first usual place that is a disk.
fs::path parent_directory(const std::string& wanted) {
  if (!wanted.empty()) {
    if (!fs::is_directory(wanted)) {
      throw Error("VALIDATION_ERROR",
                  "--dir " + wanted + " is not a directory: make it, or leave --dir out");
    }
    return wanted;
  }
  const char* given = std::getenv("TMPDIR");
  for (const fs::path& candidate : {fs::path(given == nullptr ? "" : given), fs::path("/var/tmp"),
                                    fs::path("/tmp"), fs::current_path()}) {
    if (!candidate.empty() && !is_in_memory(candidate)) return candidate;
  }
  throw Error(
      "VALIDATION_ERROR",
      "neither TMPDIR, /var/tmp, /tmp nor the current directory is on a disk: give one with --dir");
}

/// A directory of our own that goes when this does.
class Workplace {
 public:
  explicit Workplace(const fs::path& parent) {
    std::string name = (parent / "semel-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error("VALIDATION_ERROR",
                  "cannot make a directory in " + parent.string() + ": give another with --dir");
    }
    path_ = name;
  }

  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  ~Workplace() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void check_names(const std::vector<std::string>& names) {
  const auto known = measurement_names();
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw Error("VALIDATION_ERROR",
                fmt::format("--only: there is no measurement \"{}\"; there are {}", name,
                            fmt::join(known, ", ")));
  }
}

bool is_for(const Measurement& each, bool is_postgres) {
  return each.on == On::any || (each.on == On::postgres) == is_postgres;
}

bool is_wanted(const Measurement& each, const Options& options) {
  // The disk always: other figures mean nothing without it.
  if (each.name == "disk") return true;
  const bool is_named = std::ranges::find(options.only, each.name) != options.only.end();
  const bool is_postgres = !options.postgres_url.empty();
  if (is_named && !is_for(each, is_postgres)) {
    throw Error("VALIDATION_ERROR",
                fmt::format("--only {}: is measured on {} alone", each.name,
                            is_postgres ? "SQLite" : "PostgreSQL (--store postgres://…)"));
  }
  return is_named || (options.only.empty() && !each.by_name_only && is_for(each, is_postgres));
}

void check_store(const std::string& url) {
  if (url.empty() || url.starts_with("postgres://") || url.starts_with("postgresql://")) return;
  throw Error("VALIDATION_ERROR",
              "--store takes postgres://HOST/DATABASE; without it SQLite is measured, in --dir");
}

Pace pace_of(const Options& options) {
  if (!options.brief) return {.large_runs = options.large_runs};
  return {.rounds = 3,
          .rounds_minor = 1,
          .window = Seconds{0.15},
          .long_run_steps = 2000,
          .long_run_blocks = 5,
          .parked_runs = 10'000,
          .large_runs = std::min<std::int64_t>(options.large_runs, 10'000),
          .idle = Seconds{4},
          .lease = std::chrono::milliseconds{1500}};
}

/// What must hold on any machine, however busy.
int insane(const Report& report) {
  int found = 0;
  for (const Row& row : report.rows()) {
    const bool counts = row.unit == Unit::count;
    const bool counted_wrong =
        counts && std::ranges::any_of(row.targets,
                                      [&](const Target& target) { return !is_met(row, target); });
    const bool slow = row.ratio && row.unit == Unit::per_second && row.ratio->median <= 0.1;
    const bool empty = row.value.median <= 0 && row.unit != Unit::bytes;
    found += counted_wrong || slow || empty ? 1 : 0;
  }
  return found;
}

}  // namespace

std::vector<std::string> measurement_names() {
  std::vector<std::string> names;
  names.reserve(measurements.size());
  for (const Measurement& each : measurements) names.emplace_back(each.name);
  return names;
}

void remove_store(const fs::path& file) {
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) fs::remove(file.string() + suffix);
}

void measure_disk(Bench& bench) {
  std::vector<double> rates;
  rates.reserve(static_cast<std::size_t>(bench.pace.rounds));
  for (int i = 0; i < bench.pace.rounds; ++i) {
    rates.push_back(flushes_per_second(bench.directory, bench.pace.window / 2));
  }
  const Figure found = figure_of(rates);
  bench.report.set_flushes_per_second(found.median);
  bench.report.add(
      {.section = "The disk",
       .name = "append 4 KiB + fdatasync",
       .unit = Unit::per_second,
       .value = found,
       .targets = {},
       .note = found.median < quiet_flushes_per_second ? "slow or busy: trust ratios alone" : ""});
}

int run(const Options& options, std::ostream& out) {
  check_names(options.only);
  check_store(options.postgres_url);
  std::vector<const Measurement*> wanted;
  for (const Measurement& each : measurements) {
    if (is_wanted(each, options)) wanted.push_back(&each);
  }
  std::optional<BenchDatabase> database;
  if (!options.postgres_url.empty()) database.emplace(options.postgres_url);
  const Workplace place(parent_directory(options.directory));
  Report report(out);
  report.say(database ? fmt::format("semel bench on {}", database->version())
                      : fmt::format("semel bench in {}", place.path().string()));
  if (is_in_memory(place.path()))
    report.say("this is no disk: flushing costs nothing here, so nothing below means much");
  const Busyness others = busyness();
  if (others.load > others.processors) {
    report.set_busy();
    report.say(
        fmt::format("others keep this machine busy (load {:.1f}, {} processors): nothing below is "
                    "judged by ratio",
                    others.load, others.processors));
  }
  Bench bench{report, place.path(), pace_of(options), options.postgres_url};

  const double began = seconds_now();
  for (const Measurement* each : wanted) each->measure(bench);
  report.summary();
  report.say(fmt::format("{:.0f} s", seconds_now() - began));
  if (!options.json_file.empty()) {
    std::ofstream file(options.json_file);
    file << boost::json::serialize(report.json()) << '\n';
    if (!file.flush()) {
      throw Error("VALIDATION_ERROR",
                  "cannot write " + options.json_file + ": give another file with --json");
    }
  }
  const int wrong = insane(report);
  if (wrong != 0) report.say(fmt::format("{} figures cannot be right: see the rows above", wrong));
  return wrong == 0 ? 0 : 1;
}

}  // namespace semel::app::bench
