#include "engine/round.hpp"

#include "base/clock.hpp"
#include "idempotency/port.hpp"

#include <utility>

namespace semel::engine {

namespace {

/// How long a transaction stays open that nobody waits for.
constexpr std::chrono::milliseconds open_max{1};
/// More than this and those who wait have waited for long enough.
constexpr std::size_t asides_max = 1000;

}  // namespace

Round::Round(std::vector<store::Command>& own, std::vector<Aside> asides,
             std::function<TimePoint()> clock, More more)
    : own_(own),
      own_count_(own.size()),
      clock_(std::move(clock)),
      more_(std::move(more)),
      current_(&own) {
  add(std::move(asides));
}

void Round::add(std::vector<Aside> asides) {
  const TimePoint now = clock_();
  for (Aside& aside : asides) {
    idempotency::set_now(aside.command, now);
    current_->push_back(std::move(aside.command));
    asides_.push_back({.reply = std::move(aside.reply)});
  }
}

std::span<const store::Command> Round::next() {
  if (!std::exchange(has_begun_, true)) return *current_;
  current_ = &part_;
  current_at_ = 0;
  part_.clear();
  if (asides_.size() >= asides_max) return {};
  const auto before = base::monotonic_now();
  add(more_(is_waited_for() ? before : open_until_));
  waited_ += base::monotonic_now() - before;
  return part_;
}

void Round::executed(const store::Answer& answer) {
  store::Command& command = (*current_)[current_at_++];
  if (current_ == &own_ && current_at_ <= own_count_) return;
  Asked& asked = asides_[executed_++];
  auto* reserve = std::get_if<store::Reserve>(&command);
  const auto* acquired = std::get_if<store::Acquired>(&answer);
  if (reserve == nullptr || acquired == nullptr || !reserve->begins_early) return;
  if (begun_.empty()) open_until_ = base::monotonic_now() + open_max;
  begun_.push_back(std::move(*reserve));
  begun_.back().lost_fence = acquired->fence;
  ++told_;
  std::exchange(asked.reply, nullptr)(answer);
}

void Round::finish(base::Result<std::vector<store::Answer>>& answers) {
  own_.erase(own_.begin() + static_cast<std::ptrdiff_t>(own_count_), own_.end());
  for (std::size_t i = 0; i < asides_.size(); ++i) {
    if (answers) {
      asides_[i].answer = std::move((*answers)[own_count_ + i]);
    } else {
      asides_[i].answer = answers.error();
    }
  }
  if (answers) answers->resize(own_count_);
}

void Round::reply() {
  for (Asked& asked : asides_) {
    if (asked.reply) asked.reply(std::move(asked.answer));
  }
  asides_.clear();  // what replies held may go on as it goes
}

}  // namespace semel::engine
