// Where reservations are executed.
#pragma once

#include "base/result.hpp"
#include "store/answer.hpp"
#include "store/command.hpp"
#include "store/key_claims.hpp"

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace semel::idempotency {

using Reply = std::function<void(base::Result<store::Answer>)>;

class Errand;

/// Whoever has many errands under way, and goes on with all of them together that were done together.
class Desk {
 public:
  Desk() = default;
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;
  virtual ~Desk() = default;

  /// Behind `done` of each of them, on that thread. Must neither block nor throw.
  virtual void go_on(std::vector<Errand*> errands) = 0;
};

/// A command and whoever waits for what comes of it, who keeps it until then. What the command is made of stays its asker's:
/// memory that one thread allocates and another one frees costs both, and whoever executes is waited for by everybody.
class Errand {
 public:
  Errand() = default;
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;
  virtual ~Errand() = default;

  /// Once, on any thread, with the command back in its place. Must neither block nor throw.
  virtual void done(base::Result<store::Answer> answer) = 0;

  store::Command command;
  std::shared_ptr<Desk>
      desk;  ///< none: `done` sees to everything, and the errand may be gone behind it
};

/// Tells errands what became of them, and then their desks.
void tell(std::span<Errand* const> errands, std::span<base::Result<store::Answer>> answers);
void tell(Errand& errand, base::Result<store::Answer> answer);

class Port {
 public:
  virtual ~Port() = default;

  using Reply = idempotency::Reply;

  /// Executes a command about a reservation at the time that is then; its own `now` is not looked at. `reply` is called
  /// once, on any thread, possibly before this returns, and must neither block nor throw. Thousands may be under way.
  virtual void execute(store::Command command, Reply reply) = 0;

  virtual void execute(Errand& errand) {
    execute(errand.command,
            [&errand](base::Result<store::Answer> answer) { tell(errand, std::move(answer)); });
  }

  /// The same, and waits for the answer.
  virtual base::Result<store::Answer> call(store::Command command) = 0;

  /// Calls `action` where code of users may run: a reply may come from inside something that it must not call.
  virtual void go_on(std::function<void()> action) = 0;

  virtual TimePoint now() const = 0;

  /// See engine::Driver. None: keys cannot be claimed here.
  virtual store::KeyClaims* claims() { return nullptr; }
};

/// Sets a command's `now`.
void set_now(store::Command& command, TimePoint now);

}  // namespace semel::idempotency
