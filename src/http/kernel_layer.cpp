#include "http/kernel_layer.hpp"

#include "base/clock.hpp"
#include "http/keyed_answers.hpp"
#include "http/problem.hpp"
#include "http/stored_answer.hpp"
#include "idempotency/fingerprint.hpp"
#include "idempotency/kernel.hpp"
#include "idempotency/request_fingerprint.hpp"
#include "idempotency/scope.hpp"

#include <utility>

namespace semel::http {

namespace {

using idempotency::Found;
using idempotency::Kernel;
using idempotency::Policy;

std::string fingerprint_of(const Policy& policy, const KeyedRequest& keyed) {
  const Request& request = keyed.request;
  if (keyed.fingerprint_input) {
    return idempotency::Fingerprint{}.add("chosen").add_json(keyed.fingerprint_input()).digest();
  }
  return idempotency::request_fingerprint(
      policy.compared, {.method = request.method,
                        .path = request.path,
                        .query = request.query,
                        .content_type = request.header("content-type").value_or(""),
                        .is_encoded = request.header("content-encoding").has_value(),
                        .body = request.body});
}

/// Where nobody is asked who they are, all are one.
std::string scope_of(const KeyedRequest& keyed) {
  if (keyed.contract.idempotency_scope)
    return idempotency::scope_text(keyed.contract.idempotency_scope(keyed.call));
  return idempotency::caller_scope_text(keyed.contract.idempotency->scope, keyed.call.actor,
                                        keyed.call.tenant);
}

/// Without a key: done as often as it is asked for.
void run_unkeyed(const std::function<void(Done)>& run, Done done) {
  run([done = std::move(done)](Response answer) {
    claim_nothing(answer);
    done(std::move(answer));
  });
}

/// One request, from its reservation to its answer.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Kernel& kernel, std::shared_ptr<const Policy> policy, std::function<void(Done)> run,
           Done done)
      : kernel_(kernel), policy_(std::move(policy)), run_(std::move(run)), done_(std::move(done)) {}

  void begin(store::Reserve ask, const idempotency::Patience& patience) {
    id_ = ask.id;
    lease_ = ask.lease;
    kernel_.reserve(
        std::move(ask), patience,
        [self = shared_from_this()](const base::Result<Found>& found) { self->reserved(found); });
  }

 private:
  void reserved(const base::Result<Found>& found) {
    const auto* acquired = found ? std::get_if<store::Acquired>(&*found) : nullptr;
    if (acquired != nullptr) {
      execute(acquired->fence);
    } else {
      done_(answer_to(*policy_, found));
    }
  }

  void execute(store::Fence fence) {
    fence_ = fence;
    kept_ = kernel_.keep(id_, fence_, lease_);
    run_([self = shared_from_this()](Response answer) { self->handled(std::move(answer)); });
  }

  /// The answer is stored, or the key is free again, before the client hears of it.
  void handled(Response answer) {
    claim_nothing(answer);
    store::Command command = store::Release{.id = id_, .fence = fence_};
    if (policy_->stored.contains(answer.status)) {
      std::string bytes = store_answer(answer);
      const bool fits = bytes.size() <= policy_->answer_bytes_max;
      command = store::Complete{.id = id_,
                                .fence = fence_,
                                .state = fits ? store::ReservationState::completed
                                              : store::ReservationState::not_retained,
                                .answer = fits ? std::move(bytes) : std::string{}};
    }
    answer_ = std::move(answer);
    kernel_.execute(std::move(command),
                    [self = shared_from_this()](const base::Result<store::Answer>&) {
                      // Where the store failed or the lease was lost the client gets its answer all the same: the work is done.
                      self->kept_.reset();
                      self->done_(std::move(self->answer_));
                    });
  }

  Kernel& kernel_;
  std::shared_ptr<const Policy> policy_;
  std::function<void(Done)> run_;
  Done done_;
  store::ReservationId id_;
  store::Fence fence_ = 0;
  std::chrono::nanoseconds lease_{0};
  std::shared_ptr<void> kept_;
  Response answer_;
};

class KernelLayer final : public IdempotencyLayer {
 public:
  KernelLayer(IdempotencyStore& store, Policy policy)
      : store_(store), policy_(std::make_shared<const Policy>(std::move(policy))) {}

  void handle(const KeyedRequest& keyed, std::function<void(Done)> run, Done done) override {
    const Idempotent& wanted = *keyed.contract.idempotency;
    if (only_reads(keyed.request.method)) return run_unkeyed(run, std::move(done));
    auto key = key_of(keyed.request, wanted.header);
    if (!key) return done(problem("IDEMPOTENCY_KEY_INVALID", key.error().message));
    if (!*key) {
      if (!wanted.required && !policy_->required) return run_unkeyed(run, std::move(done));
      return done(problem("IDEMPOTENCY_KEY_REQUIRED", "this needs the header " + wanted.header));
    }
    store::Reserve ask;
    ask.id = {.workspace = store_.workspace(),
              .ns = namespace_of(keyed),
              .scope = scope_of(keyed),
              .key = **std::move(key)};
    ask.fingerprint = fingerprint_of(*policy_, keyed);
    // A hot replay needs nothing of what follows.
    if (auto finished = store_.kernel().remembered(ask.id, ask.fingerprint))
      return done(answer_to(*policy_, Found{*std::move(finished)}));
    ask.lease = base::bounded(wanted.lease);
    ask.ttl = base::bounded(wanted.ttl);
    ask.on_abandoned = policy_->on_abandoned;
    // Handlers end with this process. Where others share the store, they do not end with it.
    ask.begins_early =
        policy_->on_abandoned == store::OnAbandoned::run && !store_.kernel().options().is_shared;
    const auto exchange =
        std::make_shared<Exchange>(store_.kernel(), policy_, std::move(run), std::move(done));
    exchange->begin(std::move(ask), patience_of(*policy_, keyed.request));
  }

 private:
  std::string namespace_of(const KeyedRequest& keyed) const {
    if (keyed.contract.idempotency_namespace)
      return keyed.contract.idempotency_namespace(keyed.call);
    return idempotency::endpoint_namespace(*policy_, keyed.request.method, keyed.request.path);
  }

  IdempotencyStore& store_;
  std::shared_ptr<const Policy> policy_;
};

}  // namespace

std::shared_ptr<IdempotencyLayer> make_kernel_layer(IdempotencyStore& store, Policy policy) {
  return std::make_shared<KernelLayer>(store, std::move(policy));
}

}  // namespace semel::http
