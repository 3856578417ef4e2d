#include "serve/waits.hpp"

#include "http/problem.hpp"
#include "serve/action.hpp"
#include "serve/view.hpp"

#include <boost/json.hpp>

#include <vector>

namespace semel::serve {

void Waits::add(const std::string& workspace, const std::string& id, std::chrono::nanoseconds limit,
                http::Responder responder, Late late) {
  const auto wait = std::make_shared<Wait>(Wait{std::move(responder), std::move(late)});
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!is_dismissed_) {
      number = next_++;
      waits_.emplace(number, wait);
      wait->timer = timers_.after(limit, [self = weak_from_this(), number] {
        if (const auto waits = self.lock()) waits->give_up(number);
      });
    }
  }
  if (number == 0) {
    wait->late(std::move(wait->responder));
    return;
  }
  const std::weak_ptr<const void> caller = wait;
  const bool posted = driver_->post(
      [self = weak_from_this(), workspace, id, number, caller](engine::Loop& loop, TimePoint) {
        loop.watch(
            workspace, id,
            [self, number](const std::variant<detail::RunEnd, engine::Refusal>& end) {
              if (const auto waits = self.lock()) waits->over(number, end);
            },
            0, caller);
      });
  if (!posted) give_up(number);
}

std::shared_ptr<Waits::Wait> Waits::take(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = waits_.find(number);
  if (found == waits_.end()) return nullptr;
  auto wait = std::move(found->second);
  waits_.erase(found);
  return wait;
}

void Waits::over(std::uint64_t number, const std::variant<detail::RunEnd, engine::Refusal>& end) {
  const auto wait = take(number);
  if (!wait) return;
  timers_.cancel(wait->timer);
  if (const auto* refusal = std::get_if<engine::Refusal>(&end)) {
    wait->responder.answer(refused(*refusal));
  } else {
    wait->responder.answer(json_answer(200, result_view(std::get<detail::RunEnd>(end))));
  }
}

void Waits::give_up(std::uint64_t number) {
  if (const auto wait = take(number)) wait->late(std::move(wait->responder));
}

void Waits::dismiss() {
  std::vector<std::uint64_t> numbers;
  {
    const std::lock_guard lock(mutex_);
    is_dismissed_ = true;
    for (const auto& [number, wait] : waits_) numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) give_up(number);
}

}  // namespace semel::serve
