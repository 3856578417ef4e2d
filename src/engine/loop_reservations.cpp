// Reservations share the loop's batches, and so its commits; nothing of them is kept here.
#include "engine/loop.hpp"
#include "idempotency/port.hpp"

namespace semel::engine {

void Loop::reservation(store::Command command,
                       const std::function<void(base::Result<store::Answer>)>& reply,
                       TimePoint now) {
  now_ = now;
  idempotency::set_now(command, now);
  submit(
      std::move(command), [reply](store::Answer& answer) { reply(std::move(answer)); },
      [reply](const base::Fault& fault) { reply(fault); });
}

}  // namespace semel::engine
