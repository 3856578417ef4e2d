// Several nodes on a PostgreSQL cluster whose primary is killed, again and again.
//
// SEMEL_FAILOVERS says how often, SEMEL_SEED repeats the moments (as far as Patroni plays along).
#include "tests/process/kill_books.hpp"
#include "tests/process/kill_workflows.hpp"
#include "tests/process/process.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <array>
#include <fstream>
#include <map>
#include <memory>
#include <random>

namespace semel::process {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t nodes = 3;
constexpr std::size_t clients_each = 2;
/// Each of them takes Patroni some ten seconds on a machine that is not busy.
constexpr std::chrono::seconds patience{180};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// tools/postgres-cluster, which takes everything it started along when this process ends, however it does.
class PostgresCluster {
 public:
  PostgresCluster() : parent_(made_directory()) {
    runner_ = std::make_unique<Child>(
        std::vector<std::string>{SEMEL_POSTGRES_CLUSTER, "run", directory()}, parent_ / "log");
    const bool is_up = comes_true(
        [&] {
          return std::filesystem::exists(directory() / "url") ||
                 runner_->ends_within(0us).has_value();
        },
        patience);
    REQUIRE_MESSAGE(is_up, text_of(parent_ / "log"));
    url_ = text_of(directory() / "url");
    REQUIRE_MESSAGE(!url_.empty(), text_of(parent_ / "log"));
    url_.pop_back();  // the end of the line
  }

  PostgresCluster(const PostgresCluster&) = delete;
  PostgresCluster& operator=(const PostgresCluster&) = delete;

  ~PostgresCluster() {
    ask("stop");
    runner_.reset();
    if (setting("SEMEL_KEEP", 0) != 0) {
      MESSAGE("kept: ", parent_.string());
      return;
    }
    std::error_code ignored;
    std::filesystem::remove_all(parent_, ignored);
  }

  const std::string& url() const { return url_; }

  /// Empty where there is none.
  std::string primary() const {
    const auto said = words(ask("primary").value_or(""));
    return said.empty() ? "" : said.front();
  }

  /// Any one node can be lost.
  bool is_whole() const { return ask("is-whole").has_value(); }

  /// From now on it commits what no other node gets.
  void cut(const std::string& node) const { do_to(node, "cut"); }

  void kill(const std::string& node) const { do_to(node, "kill"); }

  void boot(const std::string& node) const { do_to(node, "boot"); }

  std::string status() const { return ask("status").value_or("unknown"); }

 private:
  /// Where the user postgres can get at it, too.
  static std::filesystem::path made_directory() {
    std::string name = (std::filesystem::temp_directory_path() / "semel-failover-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    std::filesystem::permissions(name, std::filesystem::perms{0755});
    return name;
  }

  std::filesystem::path directory() const { return parent_ / "cluster"; }

  /// What it says to that; nothing if it fails.
  std::optional<std::string> ask(const std::string& verb, const std::string& node = {}) const {
    const auto said = parent_ / "said";
    std::filesystem::remove(said);
    std::vector<std::string> command{SEMEL_POSTGRES_CLUSTER, verb, directory()};
    if (!node.empty()) command.push_back(node);
    Child asking(command, said);
    if (asking.ends_within(60s) != 0) return std::nullopt;
    return text_of(said);
  }

  void do_to(const std::string& node, const std::string& verb) const {
    REQUIRE_MESSAGE(ask(verb, node), verb, " ", node, ": ", text_of(parent_ / "said"));
  }

  std::filesystem::path parent_;
  std::unique_ptr<Child> runner_;
  std::string url_;
};

/// The programs that share the store, and how often each client of theirs was told that its run was started.
class Workers {
 public:
  explicit Workers(const std::string& url) : url_(url) {
    for (std::size_t node = 0; node < nodes; ++node) {
      workers_.at(node) = std::make_unique<Child>(
          std::vector<std::string>{SEMEL_KILL_WORKER, url, directory_.path(), "work",
                                   std::to_string(node * clients_each),
                                   std::to_string(clients_each)},
          log());
      // The first one makes the program's own tables.
      REQUIRE_MESSAGE(workers_.at(node)->is_ready_within(60s), text_of(log()));
    }
  }

  /// None of them is ever started again.
  void check_alive() {
    for (const auto& worker : workers_) {
      const auto ended = worker->ends_within(0us);
      REQUIRE_MESSAGE(!ended, "it ended by itself, with ", ended.value_or(0), ": ", tail_of_log());
    }
  }

  /// By client; reads on where it left off.
  const std::map<int, std::size_t>& acks() {
    std::ifstream in(ledger_file());
    in.seekg(read_);
    for (std::string line; std::getline(in, line) && !in.eof();) {
      read_ = in.tellg();
      const auto word = words(line);
      if (word.at(0) == "ack") ++acks_[std::stoi(word.at(1))];
    }
    return acks_;
  }

  /// Every client begins and is told of new runs.
  bool goes_on() {
    const std::map<int, std::size_t> before = acks();
    return comes_true(
        [&] {
          const auto& now = acks();
          return now.size() == nodes * clients_each &&
                 // The first may have been committed before.
                 std::ranges::all_of(now, [&](const auto& each) {
                   const auto found = before.find(each.first);
                   return each.second >= (found == before.end() ? 0 : found->second) + 2;
                 });
        },
        patience);
  }

  std::size_t acks_in_all() {
    std::size_t sum = 0;
    for (const auto& [client, count] : acks()) sum += count;
    return sum;
  }

  /// Nobody starts anything any more; the rest is done by one that is left alone.
  Verdict finish() {
    check_alive();
    for (auto& worker : workers_) worker->kill();
    Child last({SEMEL_KILL_WORKER, url_, directory_.path(), "finish"}, log());
    REQUIRE_MESSAGE(last.ends_within(300s) == 0, "the last node did not finish: ", tail_of_log());
    books = read_books(Ledger(ledger_file()));
    return judge(url_, books);
  }

  std::string tail_of_log() const {
    const std::string text = text_of(log());
    return text.substr(text.size() - std::min<std::size_t>(text.size(), 4000));
  }

  Books books;

 private:
  std::filesystem::path log() const { return directory_.path() / "log"; }

  std::filesystem::path ledger_file() const { return directory_.path() / "ledger"; }

  std::string url_;
  TemporaryDirectory directory_;
  std::array<std::unique_ptr<Child>, nodes> workers_;
  std::map<int, std::size_t> acks_;
  std::streamoff read_ = 0;
};

TEST_CASE(
    "when the primary is killed work goes on, nothing acknowledged is lost, nothing doubled") {
  const int failovers = setting("SEMEL_FAILOVERS", 3);
  const auto seed =
      static_cast<unsigned>(setting("SEMEL_SEED", static_cast<int>(std::random_device{}() >> 1U)));
  CAPTURE(seed);
  std::mt19937 chance(seed);
  const PostgresCluster cluster;
  Workers workers(cluster.url());
  REQUIRE(workers.goes_on());

  for (int failover = 1; failover <= failovers; ++failover) {
    CAPTURE(failover);
    pause(std::chrono::microseconds{chance() % 2'000'000});
    std::string lost;
    // On a busy machine Patroni may just be changing its mind by itself.
    REQUIRE_MESSAGE(comes_true([&] { return !(lost = cluster.primary()).empty(); }, patience),
                    cluster.status());
    const std::size_t acks = workers.acks_in_all();

    // Otherwise what was committed there is nearly always elsewhere, too, whether somebody waited for that or not.
    const bool is_cut = failover % 2 == 1;
    if (is_cut) {
      cluster.cut(lost);
      pause(std::chrono::microseconds{chance() % 500'000});
    }
    const auto killed = Clock::now();
    cluster.kill(lost);
    std::string promoted;
    const bool is_promoted =
        comes_true([&] { return !(promoted = cluster.primary()).empty(); }, patience);
    REQUIRE_MESSAGE(is_promoted, cluster.status());
    const double without_primary = seconds_since(killed);
    REQUIRE(promoted != lost);
    REQUIRE_MESSAGE(workers.goes_on(), cluster.status(), workers.tail_of_log());
    const double without_work = seconds_since(killed);

    cluster.boot(lost);
    REQUIRE_MESSAGE(comes_true([&] { return cluster.is_whole(); }, patience), cluster.status());
    workers.check_alive();
    MESSAGE(fmt::format(
        "{}: {} after {}{}; {:.1f} s without a primary, every client was served again after "
        "{:.1f} s, any node may be lost again after {:.1f} s; {} acknowledged so far ({} before)",
        failover, promoted, lost, is_cut ? ", cut off before" : "", without_primary, without_work,
        seconds_since(killed), workers.acks_in_all(), acks));
  }

  const Verdict verdict = workers.finish();
  for (std::size_t i = 0; i < std::min<std::size_t>(20, verdict.problems.size()); ++i) {
    MESSAGE(verdict.problems.at(i));
  }
  CHECK(verdict.problems.size() == 0);
  MESSAGE(fmt::format(
      "seed {}: {} failovers; {} starts acknowledged, {} runs, {} steps, {} attempts, {} of them "
      "lost, {} outcomes unknown, {} dead and retried",
      seed, failovers, workers.books.acks.size(), verdict.runs, verdict.steps, verdict.attempts,
      verdict.attempts_lost, verdict.outcomes_unknown, workers.books.dead.size()));
}

}  // namespace
}  // namespace semel::process
