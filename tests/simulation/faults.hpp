// What goes wrong in a simulated world, how often, and a count of what did.
#pragma once

#include "base/random.hpp"
#include "store/answer.hpp"
#include "store/command.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace semel::sim {

enum class Fault : std::uint8_t {
  crash_before_commit,  ///< memory is lost, and the batch with it
  crash_after_commit,   ///< memory is lost before anybody heard of the commit
  crash_in_recovery,    ///< the same, either way, soon after a crash
  lands_and_fails,      ///< the commit happens, and the store says that it does not know
  fails_unlanded,       ///< it does not happen, and the store says that it does not know
  stall,                ///< a batch is out while much else happens
  duplicate_wakeup,     ///< ticks for nothing, runs woken and results delivered twice
  late_wakeup,          ///< nobody looks at the clock when something is due
  clock_forward,
  clock_backward,
  eviction,  ///< idle coroutines thrown out, to be rebuilt by replay
};

constexpr std::size_t fault_count = 11;
constexpr std::size_t command_count = std::variant_size_v<store::Command>;

std::string_view name_of(Fault fault);

/// How often which fault met a batch with which kind of command in it.
class FaultCounts {
 public:
  void add(Fault fault, std::span<const store::Command> batch);
  void add(const FaultCounts& other);

  std::uint64_t total() const { return total_; }

  /// For people.
  std::string table() const;

  /// Combinations that can occur and did not.
  std::vector<std::string> missing() const;

 private:
  std::array<std::array<std::uint64_t, command_count>, fault_count> counts_{};
  std::uint64_t total_ = 0;
};

/// What kind of world it is. Every seed has its own: some crash all the time, in some time is the enemy.
struct Profile {
  // One in so many chances; 0: never. Chances are batches for the first group, turns for the second.
  std::uint64_t crash_before = 0;
  std::uint64_t crash_after = 0;
  std::uint64_t crash_again = 0;  ///< of crashes: followed by another during the recovery
  std::uint64_t lands_and_fails = 0;
  std::uint64_t fails_unlanded = 0;
  std::uint64_t stall = 0;
  std::uint64_t wakeups = 0;

  std::uint64_t late_tick = 0;
  std::uint64_t jump_forward = 0;
  std::uint64_t jump_back = 0;
  std::uint64_t restart = 0;   ///< in order
  std::uint64_t redeploy = 0;  ///< of restarts: with other code, or a workflow that comes late

  // How the world's time is spent.
  std::size_t runs_max = 16;  ///< unfinished ones; nobody starts more
  unsigned calls_weight = 4;
  unsigned batches_weight = 8;
  unsigned bodies_weight = 8;
  unsigned clock_weight = 4;

  // The engine in it.
  std::size_t frame_bytes_max = std::size_t{256} << 20U;
  std::uint64_t journal_entries_max = 1'000'000;
  std::chrono::nanoseconds retention{std::chrono::hours{24}};
  bool answers_in_parts = false;  ///< and the next batch on its way before the last part
  bool check_replay = false;
  bool has_poison = false;
};

Profile draw_profile(base::SeededRandom& random);

/// Wakes runs for nothing and tells everything twice, where that is an answer's to say.
void add_wakeups(std::span<store::Answer> answers, std::span<const store::RunKey> runs,
                 base::SeededRandom& random);

}  // namespace semel::sim
