// Where reservations are executed.
#pragma once

#include "base/result.hpp"
#include "store/store.hpp"

#include <functional>

namespace semel::idempotency {

class Port {
 public:
  virtual ~Port() = default;

  using Reply = std::function<void(base::Result<store::Answer>)>;

  /// Executes a command about a reservation at the time that is then; its own `now` is not looked at. `reply` is called
  /// once, on any thread, possibly before this returns, and must neither block nor throw. Thousands may be under way.
  virtual void execute(store::Command command, Reply reply) = 0;

  /// The same, and waits for the answer.
  virtual base::Result<store::Answer> call(store::Command command) = 0;

  /// Calls `action` where code of users may run: a reply may come from inside something that it must not call.
  virtual void go_on(std::function<void()> action) = 0;

  virtual TimePoint now() const = 0;
};

/// Sets a command's `now`.
void set_now(store::Command& command, TimePoint now);

}  // namespace semel::idempotency
