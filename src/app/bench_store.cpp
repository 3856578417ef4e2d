#include "app/bench_store.hpp"

#include "base/assert.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/sqlite/sqlite_store.hpp"

#include <fmt/format.h>

namespace semel::app::bench {

namespace {

constexpr TimePoint some_time{std::chrono::seconds{1'700'000'000}};
constexpr std::int64_t keys_count = std::int64_t{1} << 40;

}  // namespace

StoreAlone StoreAlone::on_sqlite(const std::filesystem::path& file, EntryBytes bytes) {
  auto opened = store::SqliteStore::open({.path = file.string()});
  if (!opened) throw Error("STORE_UNAVAILABLE", opened.error().message);
  return {std::move(*opened), bytes};
}

StoreAlone StoreAlone::on_postgres(const std::string& url, EntryBytes bytes) {
  auto opened = store::PostgresStore::open({.url = url});
  if (!opened) throw Error("STORE_UNAVAILABLE", opened.error().message);
  return {std::move(*opened), bytes};
}

StoreAlone::StoreAlone(std::unique_ptr<store::Store> store, EntryBytes bytes)
    : store_(std::move(store)), bytes_(bytes) {
  const auto answers = execute({store::ReserveKeys{.keys_count = keys_count}});
  next_key_ = std::get<store::KeysReserved>(answers.front()).first_key;
}

std::vector<store::Answer> StoreAlone::execute(const std::vector<store::Command>& batch) {
  auto answers = store_->execute(batch);
  if (!answers) throw Error("STORE_UNAVAILABLE", answers.error().message);
  return std::move(*answers);
}

store::Command StoreAlone::next_command(Slot& slot, int steps) {
  const auto seq = slot.next++;
  if (seq == 0) {
    slot.run = next_key_++;
    store::StartRun start;
    start.run.key = slot.run;
    start.run.id = fmt::format("{:026}", slot.run);
    start.run.instance = fmt::format("{:016}", slot.run);
    start.run.workflow = "tasks";
    start.run.input = "[10]";
    start.run.created_at = some_time;
    start.first_entry.assign(bytes_.first, 'f');
    return start;
  }
  const bool last = seq == static_cast<store::Seq>(steps);
  store::AdvanceRun advance;
  advance.run = slot.run;
  advance.seq = seq;
  advance.entries.emplace_back(last ? bytes_.last : bytes_.step, 's');
  advance.now = some_time;
  if (last) {
    advance.changes.end =
        store::End{.status = store::Status::completed, .output = "10", .failure = {}};
    slot.next = 0;
  }
  return advance;
}

Rate StoreAlone::group_commits(int runs, int steps, Seconds duration) {
  std::vector<Slot> slots(static_cast<std::size_t>(runs));
  std::uint64_t done = 0;
  std::uint64_t commits = 0;
  const double began = seconds_now();
  const double cpu_began = cpu_seconds();
  while (seconds_now() - began < duration.count()) {
    std::vector<store::Command> batch;
    batch.reserve(slots.size());
    for (Slot& slot : slots) batch.push_back(next_command(slot, steps));
    for (const store::Answer& answer : execute(batch)) {
      const bool advanced = std::holds_alternative<store::Advanced>(answer);
      SEMEL_ASSERT(advanced || std::holds_alternative<store::RunStarted>(answer));
      done += advanced ? 1 : 0;
    }
    ++commits;
  }
  const auto steps_done = static_cast<double>(done);
  return {.steps_per_second = steps_done / (seconds_now() - began),
          .batch_mean = commits == 0 ? 0 : static_cast<double>(runs),
          .cpu_per_step = (cpu_seconds() - cpu_began) / steps_done};
}

}  // namespace semel::app::bench
