#include "engine/round.hpp"

#include "base/clock.hpp"
#include "idempotency/port.hpp"

#include <algorithm>
#include <utility>

namespace semel::engine {

namespace {

/// How long a transaction stays open that nobody waits for.
constexpr std::chrono::nanoseconds open_max = std::chrono::milliseconds{1};
/// And one that somebody waits for, while others are at work in it: about what another commit would cost.
constexpr std::chrono::nanoseconds hold_max = std::chrono::microseconds{250};
/// More than this and those who wait have waited for long enough.
constexpr std::size_t asides_max = 1000;

bool ends_work(const store::Command& command) {
  return std::holds_alternative<store::Complete>(command) ||
         std::holds_alternative<store::Release>(command);
}

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
  tell_early();
  current_ = &part_;
  current_at_ = 0;
  part_.clear();
  if (is_last_ || asides_.size() >= asides_max) return {};
  const auto before = base::monotonic_now();
  // Half of them at a time: while one half waits for the disk the other is at work.
  is_last_ = waiting_ >= at_work_;
  add(is_last_ ? more_(1, before) : more_((at_work_ - waiting_ + 1) / 2, due_));
  waited_ += base::monotonic_now() - before;
  return part_;
}

void Round::executed(const store::Answer& answer) {
  store::Command& command = (*current_)[current_at_++];
  const bool is_own = current_ == &own_ && current_at_ <= own_count_;
  const std::size_t index = is_own ? 0 : executed_++;
  auto* reserve = is_own ? nullptr : std::get_if<store::Reserve>(&command);
  const auto* acquired = std::get_if<store::Acquired>(&answer);
  if (reserve != nullptr && acquired != nullptr && reserve->begins_early) {
    if (due_.count() == 0) due_ = base::monotonic_now() + open_max;
    begun_.push_back(std::move(*reserve));
    begun_.back().lost_fence = acquired->fence;
    asides_[index].answer = answer;
    to_tell_.push_back(index);
    ++at_work_;
    return;
  }
  if (at_work_ > 0 && ends_work(command)) --at_work_;
  if (waiting_++ > 0) return;
  const auto due = base::monotonic_now() + hold_max;
  due_ = due_.count() == 0 ? due : std::min(due_, due);
}

/// All at once: each wakes somebody up.
void Round::tell_early() {
  for (const std::size_t index : std::exchange(to_tell_, {}))
    std::exchange(asides_[index].reply, nullptr)(asides_[index].answer);
  told_ = begun_.size();
}

std::vector<store::Reserve> Round::take_begun() {
  begun_.resize(told_);
  return std::move(begun_);
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
