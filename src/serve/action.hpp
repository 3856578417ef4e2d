// What changes something, over HTTP: the key, the effect and the stored answer are one transaction. So no key is ever in
// progress here, not even after a crash: either all of it happened or nothing did.
#pragma once

#include "engine/driver.hpp"
#include "http/listener.hpp"
#include "idempotency/kernel.hpp"
#include "store/unit_of_work.hpp"

#include <semel/http.hpp>

#include <functional>
#include <memory>
#include <string>

namespace semel::serve {

/// Inside the transaction.
struct Unit {
  store::UnitOfWork& store;
  std::function<void()>& after_commit;  ///< called before anybody hears the answer
  std::function<void()>& undo;          ///< called before the effect is done over
};

/// Does it and says how it is answered. An answer that is not 2xx says that nothing was changed; where something was and
/// must not stay, it throws. May be called more than once.
using Effect = std::function<http::Response(Unit&)>;

/// What is kept of an answer.
enum class Kept : std::uint8_t {
  whole,
  id,  ///< it has a secret in it: a repeat is told the `id` of what was made
};

/// Who asks for what, and how it is answered.
struct Asked {
  const http::Request& request;  ///< stays until it is answered
  std::string actor;
  std::string workspace;
  std::shared_ptr<const void> alive;  ///< what the effect refers to; kept until it is over
};

/// Asked once for everything that is not a replay; an answer turns it away. From any thread, and inside transactions.
using Charge = std::function<std::optional<http::Response>(const std::string& workspace)>;

class Actions {
 public:
  Actions(std::shared_ptr<engine::Driver> driver, std::shared_ptr<idempotency::Kernel> kernel,
          Charge charge)
      : driver_(std::move(driver)), kernel_(std::move(kernel)), charge_(std::move(charge)) {}

  using Done = std::function<void(http::Response)>;

  /// Answers exactly once; does not block. With an Idempotency-Key: whoever asks again gets the same bytes, from memory
  /// where they were asked for before.
  void perform(const Asked& asked, Effect effect, Done done, Kept kept = Kept::whole);
  void perform(const Asked& asked, Effect effect, http::Responder responder,
               Kept kept = Kept::whole);

 private:
  std::shared_ptr<engine::Driver> driver_;
  std::shared_ptr<idempotency::Kernel> kernel_;
  const Charge charge_;
};

/// A refusal of the engine's as a problem.
http::Response refused(const engine::Refusal& refusal);

}  // namespace semel::serve
