#include "tests/simulation/faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

namespace semel::sim {

namespace {

constexpr std::array<std::string_view, fault_count> fault_names{"crash before commit",
                                                                "crash after commit",
                                                                "crash in recovery",
                                                                "lands and fails",
                                                                "fails unlanded",
                                                                "stall",
                                                                "duplicate wake-up",
                                                                "late wake-up",
                                                                "clock forward",
                                                                "clock backward",
                                                                "eviction"};

/// What the simulated engines do. They are never so busy that they reserve more run keys, and each has its store to itself.
constexpr bool is_simulated(std::size_t command) {
  const std::size_t reserve_keys = 1;
  const std::size_t keep_node = 24;  // and all behind it are about other nodes
  static_assert(
      std::is_same_v<std::variant_alternative_t<keep_node, store::Command>, store::KeepNode>);
  return command != reserve_keys && command < keep_node;
}

/// Before a node is open it has no runs in memory that could be evicted.
bool is_possible(std::size_t fault, std::size_t command) {
  const std::size_t open_node = 0;
  static_assert(
      std::is_same_v<std::variant_alternative_t<open_node, store::Command>, store::OpenNode>);
  return is_simulated(command) &&
         (command != open_node || fault != static_cast<std::size_t>(Fault::eviction));
}

std::size_t index_of(Fault fault) { return static_cast<std::size_t>(fault); }

/// Never, or one in a number drawn from this list.
std::uint64_t draw(base::SeededRandom& random, std::initializer_list<std::uint64_t> choices) {
  return choices.begin()[random.below(choices.size())];
}

}  // namespace

std::string_view name_of(Fault fault) { return fault_names[index_of(fault)]; }

void FaultCounts::add(Fault fault, std::span<const store::Command> batch) {
  ++total_;
  std::array<bool, command_count> seen{};
  for (const store::Command& command : batch) seen[command.index()] = true;
  for (std::size_t i = 0; i < command_count; ++i) counts_[index_of(fault)][i] += seen[i] ? 1U : 0U;
}

void FaultCounts::add(const FaultCounts& other) {
  total_ += other.total_;
  for (std::size_t fault = 0; fault < fault_count; ++fault) {
    for (std::size_t i = 0; i < command_count; ++i) counts_[fault][i] += other.counts_[fault][i];
  }
}

std::string FaultCounts::table() const {
  std::string text = fmt::format("{:<20}", "fault × command");
  for (std::size_t i = 0; i < command_count; ++i) {
    if (is_simulated(i)) text += fmt::format("{:>14}", store::command_name(i));
  }
  for (std::size_t fault = 0; fault < fault_count; ++fault) {
    text += fmt::format("\n{:<20}", fault_names[fault]);
    for (std::size_t i = 0; i < command_count; ++i) {
      if (is_simulated(i)) text += fmt::format("{:>14}", counts_[fault][i]);
    }
  }
  return text;
}

std::vector<std::string> FaultCounts::missing() const {
  std::vector<std::string> names;
  for (std::size_t fault = 0; fault < fault_count; ++fault) {
    for (std::size_t i = 0; i < command_count; ++i) {
      if (!is_possible(fault, i) || counts_[fault][i] != 0) continue;
      names.push_back(fmt::format("{} × {}", fault_names[fault], store::command_name(i)));
    }
  }
  return names;
}

Profile draw_profile(base::SeededRandom& random) {
  Profile profile;
  profile.crash_before = draw(random, {0, 25, 50, 100});
  profile.crash_after = draw(random, {0, 25, 50, 100});
  profile.crash_again = draw(random, {2, 4});
  profile.lands_and_fails = draw(random, {0, 40, 80});
  profile.fails_unlanded = draw(random, {0, 40, 80});
  profile.stall = draw(random, {0, 20, 60});
  profile.wakeups = draw(random, {0, 10, 30});
  profile.late_tick = draw(random, {0, 10, 40});
  profile.jump_forward = draw(random, {0, 150, 400});
  profile.jump_back = draw(random, {0, 150, 400});
  profile.restart = draw(random, {0, 300, 900});
  profile.redeploy = draw(random, {0, 3});
  profile.runs_max = 6 + random.below(24);
  profile.calls_weight = static_cast<unsigned>(2 + random.below(4));
  profile.batches_weight = static_cast<unsigned>(5 + random.below(20));
  profile.bodies_weight = static_cast<unsigned>(5 + random.below(15));
  profile.clock_weight = static_cast<unsigned>(2 + random.below(6));
  if (random.one_in(3)) profile.frame_bytes_max = random.below(3) * 8000;
  if (random.one_in(12)) profile.journal_entries_max = 12 + random.below(20);
  if (random.one_in(4)) profile.retention = std::chrono::seconds{60 + random.below(600)};
  profile.answers_in_parts = random.one_in(2);
  profile.check_replay = random.one_in(8);
  profile.has_poison = random.one_in(5);
  // One in 35,000 would see no fault at all.
  const bool is_calm = profile.crash_before + profile.crash_after + profile.lands_and_fails +
                           profile.fails_unlanded + profile.stall + profile.wakeups +
                           profile.late_tick + profile.jump_forward + profile.jump_back ==
                       0;
  if (is_calm) profile.crash_after = 25;
  return profile;
}

namespace {

struct AddWakeups {
  std::span<const store::RunKey> runs;
  base::SeededRandom& random;

  store::RunKey any() const { return runs[random.below(runs.size())]; }

  void to(store::Effects& effects) const {
    const auto again = effects.wake;
    effects.wake.insert(effects.wake.end(), again.begin(), again.end());
    effects.wake.push_back(any());
  }

  void operator()(store::RunStarted& answer) const { to(answer.effects); }

  void operator()(store::Advanced& answer) const { to(answer.effects); }

  void operator()(store::Cancelled& answer) const { to(answer.effects); }

  void operator()(store::TimersDue& answer) const {
    const auto again = answer.timers;
    answer.timers.insert(answer.timers.end(), again.begin(), again.end());
    answer.timers.push_back({.run = any(), .kind = store::TimerKind::sleep, .op = "1", .due = {}});
  }

  void operator()(store::InboxRead& answer) const {
    const auto again = answer.items;
    answer.items.insert(answer.items.end(), again.begin(), again.end());
  }

  void operator()(store::RunsFound& answer) const {
    answer.runs.insert(answer.runs.begin(), any());
  }

  template <class Other>
  void operator()(Other&) const {}
};

}  // namespace

void add_wakeups(std::span<store::Answer> answers, std::span<const store::RunKey> runs,
                 base::SeededRandom& random) {
  if (runs.empty()) return;
  for (store::Answer& answer : answers) std::visit(AddWakeups{runs, random}, answer);
}

}  // namespace semel::sim
