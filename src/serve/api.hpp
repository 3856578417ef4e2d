// The engine over HTTP: routes, who may use them, and what they do. See docs/serve.md.
#pragma once

#include "engine/driver.hpp"
#include "engine/registry.hpp"
#include "http/server_core.hpp"
#include "idempotency/kernel.hpp"
#include "serve/action.hpp"
#include "serve/keyring.hpp"
#include "serve/quotas.hpp"
#include "serve/shared_look.hpp"
#include "serve/tails.hpp"
#include "serve/waits.hpp"
#include "serve/webhook_answers.hpp"

#include <semel/http.hpp>

#include <boost/json/object.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace semel::serve {

/// What the routes stand on; all of it outlives the server.
struct Parts {
  std::shared_ptr<const engine::Registry> registry;
  std::shared_ptr<engine::Driver> driver;
  std::shared_ptr<idempotency::Kernel> kernel;
  Limits limits;
  std::chrono::nanoseconds retention{};
  http::WorkspaceLimits workspace{};
  std::shared_ptr<store::KeyReader> keys{};  ///< where other processes have the store open, too
  std::string node{};                        ///< what this process is called
};

class Api : public std::enable_shared_from_this<Api> {
 public:
  /// Adds its routes to `core`, which must not have started.
  Api(Parts parts, http::detail::ServerCore& core);
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  /// Reads the keys. Throws Error, VALIDATION_ERROR, where the server would listen beyond this machine and there are none.
  void open();

  /// For `http::ServerOptions`.
  std::variant<http::Identity, http::Refusal> authenticate(const http::Request& request) const;
  std::optional<http::Refusal> authorise(const http::Request& request,
                                         std::string_view route) const;

 private:
  using Look = std::function<boost::json::object(http::Call&)>;
  template <class Req>
  using Act = std::function<Effect(const http::Request&, const http::Call&, const Req&)>;

  void add_runs();
  void add_steering();
  void add_hooks();
  void add_webhooks();
  void add_keys();
  void add_kernel();
  void add_operating();

  template <class Res>
  void look(const std::string& path, const std::string& name, Needs needs,
            std::vector<std::string> query, Look look);
  template <class Req, class Res>
  void act(const std::string& path, const std::string& name, Needs needs, Act<Req> act,
           Kept kept = Kept::whole);

  std::optional<http::Response> guard(const http::Request& request) const;
  std::optional<http::Response> limit(const http::Call& call, std::string_view route);
  /// Calls `start`, which says whether it made a run of so many bytes; throws where that is one too many.
  void within_limits(Unit& unit, const std::string& workspace, std::size_t bytes,
                     const std::function<bool()>& start);
  void measure_soon(std::chrono::nanoseconds at);
  void answer_webhook(const http::Request& request, const http::Call& call,
                      const std::shared_ptr<http::Responder>& client);
  http::Response start(Unit& inside, engine::StartInput input);
  http::Response cancel(store::UnitOfWork& unit, const store::CancelRun& command);
  http::Response retry(Unit& inside, const store::FindRun& wanted,
                       std::optional<std::uint64_t> version);
  http::Response fork(Unit& inside, const store::FindRun& wanted, std::uint64_t seq,
                      std::optional<std::uint64_t> version);
  http::Response wake(const Unit& inside, const store::FindRun& wanted,
                      std::optional<std::uint64_t> version);
  boost::json::object run_in(store::UnitOfWork& unit, const store::RunRecord& run) const;
  Caller caller_of(const http::Call& call) const;

  const Parts parts_;
  http::detail::ServerCore& core_;
  Keyring keys_;
  Quotas quotas_;
  Actions actions_;
  std::shared_ptr<Waits> waits_;
  std::shared_ptr<Tails> tails_;
  std::shared_ptr<WebhookAnswers> answers_;
  idempotency::Timers timers_;
  std::map<std::string, Needs, std::less<>> needs_;  ///< by the route's name
  std::set<std::string, std::less<>> acts_;  ///< routes of `actions_`, which charge themselves
  std::optional<SharedLook> key_look_;       ///< where keys are shared; the last: it uses `keys_`
};

/// 422 with the name of a parameter that is not among `known`; one that ends in "*" stands for all that begin so.
void check_query(const http::Call& call, const std::vector<std::string>& known);

/// `limit` of a list, 50 by default. Throws ValidationError with the parameter's name.
std::size_t limit_of(const http::Call& call);

/// A duration in the body, by its pointer. Throws ValidationError.
Millis duration_at(const std::string& pointer, const std::string& text);

/// If-Match; none: any version.
std::optional<std::uint64_t> expected_version(const http::Request& request);

}  // namespace semel::serve
