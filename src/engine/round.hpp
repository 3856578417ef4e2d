// What the committer executes as one transaction: the loop's batch, commands about reservations that came past the loop,
// and those that come while it is under way.
//
// Who reserves a key and may begin early is told so when that was executed, not when it is durable. What comes of its
// work then finds the transaction still open, and both are one commit. A transaction that nobody waits for stays open
// for a moment, so that quick work gets into it; slow work finds its reservation durable soon.
#pragma once

#include "engine/driver.hpp"

#include <chrono>
#include <functional>
#include <span>
#include <vector>

namespace semel::engine {

/// A command past the loop.
struct Aside {
  store::Command command;
  Driver::Reply reply;
};

class Round final : public store::GrowingBatch {
 public:
  /// Commands that have come. Waits for so many of them until the time is over; none: it is time to commit.
  using More = std::function<std::vector<Aside>(std::size_t count, std::chrono::nanoseconds until)>;

  /// `own`: the loop's commands, which are there again behind the round.
  Round(std::vector<store::Command>& own, std::vector<Aside> asides,
        std::function<TimePoint()> clock, More more);
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  std::span<const store::Command> next() override;
  void executed(const store::Answer& answer) override;

  /// How many commands there were.
  std::size_t size() const { return own_count_ + asides_.size(); }

  /// For how long it waited for commands.
  std::chrono::nanoseconds waited() const { return waited_; }

  /// It is over: takes its part of what came of it and leaves the loop's.
  void finish(base::Result<std::vector<store::Answer>>& answers);

  /// Tells everybody who was not told early. Behind `finish`.
  void reply();

  /// Reservations whose owners were told early. Where the transaction failed, the store owes them.
  std::vector<store::Reserve> take_begun();

 private:
  struct Asked {
    Driver::Reply reply;  ///< none: was told early
    base::Result<store::Answer> answer = store::Answer{};
  };

  void add(std::vector<Aside> asides);
  void tell_early();

  std::vector<store::Command>& own_;
  const std::size_t own_count_;
  const std::function<TimePoint()> clock_;
  const More more_;

  std::vector<store::Command> part_;      ///< behind the first, which is in `own_`
  std::vector<store::Command>* current_;  ///< the one that is executed
  std::size_t current_at_ = 0;
  bool has_begun_ = false;
  std::vector<Asked> asides_;
  std::size_t executed_ = 0;  ///< of the asides

  std::vector<store::Reserve> begun_;  ///< by those who may begin early
  std::vector<std::size_t> to_tell_;   ///< of the asides: they may begin, and are to hear so
  std::size_t told_ = 0;               ///< of those who may begin
  std::size_t at_work_ = 0;            ///< began in this round, and nothing has come of it
  std::chrono::nanoseconds due_{0};    ///< when it is committed at the latest; 0: nobody waits
  std::size_t waiting_ = 0;            ///< for the commit
  bool is_last_ = false;               ///< nobody is waited for any more
  std::chrono::nanoseconds waited_{0};
};

}  // namespace semel::engine
