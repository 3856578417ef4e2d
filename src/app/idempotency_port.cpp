#include "app/idempotency_port.hpp"

#include "app/client_port.hpp"

#include <optional>

namespace semel::app {

using engine::Loop;
using store::Answer;

void EnginePort::execute(store::Command command, Reply reply) {
  refuse_inside_workflow();
  if (!driver_->execute(std::move(command), reply))
    reply(base::Fault{base::Errc::refused, "the engine has stopped"});
}

void EnginePort::execute(idempotency::Errand& errand) {
  refuse_inside_workflow();
  if (!driver_->execute(errand))
    tell(errand, base::Fault{base::Errc::refused, "the engine has stopped"});
}

base::Result<Answer> EnginePort::call(store::Command command) {
  refuse_inside_workflow();

  struct State {
    engine::Waiting waiting;
    std::optional<base::Result<Answer>> answer;
  };

  // Shared: a caller that was refused to wait is gone when the answer comes.
  const auto state = std::make_shared<State>();
  const auto reply = [state](base::Result<Answer> answer) {
    state->answer = std::move(answer);
    state->waiting.finish();
  };
  // On the loop's own thread, waiting goes on when the loop hears of something.
  const bool accepted =
      driver_->is_loop_thread()
          ? driver_->post([command = std::move(command), reply](Loop& loop, TimePoint now) mutable {
              loop.reservation(std::move(command), reply, now);
            })
          : driver_->execute(std::move(command), reply);
  if (!accepted) throw Error("ENGINE_STOPPED", "the engine has stopped");
  if (!driver_->wait(state->waiting, {}))
    return base::Fault{base::Errc::unavailable, "no answer from the store"};
  return *std::move(state->answer);
}

void EnginePort::go_on(std::function<void()> action) {
  const auto shared = std::make_shared<std::function<void()>>(std::move(action));
  // Once the loop has stopped there is no inside of it.
  if (!driver_->post([shared](Loop&, TimePoint) { (*shared)(); })) (*shared)();
}

}  // namespace semel::app
