#include "http/kernel_layer.hpp"

#include "base/clock.hpp"
#include "http/keyed_answers.hpp"
#include "http/problem.hpp"
#include "http/request_errand.hpp"
#include "http/stored_answer.hpp"
#include "idempotency/fingerprint.hpp"
#include "idempotency/kernel.hpp"
#include "idempotency/request_fingerprint.hpp"
#include "idempotency/scope.hpp"

#include <mutex>
#include <optional>
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
void run_unkeyed(const std::shared_ptr<KeyedWork>& work) {
  work->run(KeyedWork::Begin::now, [work](Response answer) {
    claim_nothing(answer);
    work->answer(std::move(answer));
  });
}

/// Work that takes longer than this under a claim is reserved in the store: another request under its key is a conflict,
/// also after a crash.
constexpr std::chrono::milliseconds claimed_max{1};
/// Where the store failed, for as long as the work goes on.
constexpr std::chrono::milliseconds reserve_again_after{100};

/// One request, from its reservation to its answer.
class Exchange final : public std::enable_shared_from_this<Exchange>, RequestErrand {
 public:
  Exchange(Kernel& kernel, std::shared_ptr<const Policy> policy, std::shared_ptr<KeyedWork> work)
      : RequestErrand(std::move(work)), kernel_(kernel), policy_(std::move(policy)) {}

  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// A handler that was dropped, by a server that stops, says nothing any more. A reservation ends with its lease.
  ~Exchange() override {
    if (ask().is_claimed && held_ == Held::claim && !is_handled_) kernel_.give_up(ask(), [] {});
  }

  /// `may_claim`: the work ends with this process, and may be begun anew by whoever asks then.
  void begin(store::Reserve wanted, const idempotency::Patience& patience, bool may_claim) {
    using Claimed = store::KeyClaims::Claimed;
    command = std::move(wanted);
    const Claimed claimed = may_claim ? kernel_.claim(ask()) : Claimed::no;
    if (claimed == Claimed::yes) return execute_claimed();
    store::Reserve asked = ask();
    asked.is_claimed = claimed == Claimed::met;
    kernel_.reserve(
        std::move(asked), patience,
        [self = shared_from_this()](const base::Result<Found>& found) { self->reserved(found); });
  }

 private:
  /// What is asked for, and with its outcome the errand. One of them: there are thousands of these, and the allocator is
  /// quick up to a kilobyte.
  store::Reserve& ask() { return *std::get_if<store::Reserve>(&command); }

  /// As what the key is the request's own.
  enum class Held : std::uint8_t {
    claim,        ///< in memory
    reserving,    ///< a claim that is about to become a reservation
    reservation,  ///< under the fence
    nothing,      ///< it was forgotten meanwhile
  };

  void reserved(const base::Result<Found>& found) {
    const auto* acquired = found ? std::get_if<store::Acquired>(&*found) : nullptr;
    if (acquired == nullptr) {
      work().answer(answer_to(*policy_, found));
      return;
    }
    keep(acquired->fence);
    run(KeyedWork::Begin::later);
  }

  void run(KeyedWork::Begin begin) {
    work().run(begin,
               [self = shared_from_this()](Response answer) { self->handled(std::move(answer)); });
  }

  void keep(store::Fence fence) {
    held_ = Held::reservation;
    fence_ = fence;
    timer_ = kernel_.keep(ask().id, fence_, ask().lease);
  }

  void execute_claimed() {
    ask().is_claimed = true;
    run(KeyedWork::Begin::now);
    const std::lock_guard lock(mutex_);
    if (!is_handled_) make_durable_after(claimed_max);
  }

  void make_durable_after(std::chrono::milliseconds delay) {
    timer_ = kernel_.later(delay, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->make_durable();
    });
  }

  void make_durable() {
    {
      const std::lock_guard lock(mutex_);
      if (is_handled_) return;
      held_ = Held::reserving;
    }
    kernel_.execute(ask(), [self = shared_from_this()](const base::Result<store::Answer>& answer) {
      self->made_durable(answer);
    });
  }

  void made_durable(const base::Result<store::Answer>& answer) {
    {
      const std::lock_guard lock(mutex_);
      if (!answer) {
        held_ = Held::claim;  // nobody gets the key meanwhile
        if (!is_handled_) return make_durable_after(reserve_again_after);
      } else if (const auto* acquired = std::get_if<store::Acquired>(&*answer)) {
        keep(acquired->fence);
      } else {
        held_ = Held::nothing;
      }
      if (!is_handled_) return;
    }
    finish();
  }

  void handled(Response answer) {
    claim_nothing(answer);
    {
      const std::lock_guard lock(mutex_);
      answer_ = std::move(answer);
      is_handled_ = true;
      if (held_ == Held::reserving) return;  // finished when the fence is there
    }
    finish();
  }

  /// The answer is stored, or the key is free again, before the client hears of it. Where the store failed or the lease was
  /// lost it hears all the same: the work is done.
  void finish() {
    auto outcome = outcome_of(answer_);
    switch (held_) {
      case Held::claim:
        return outcome ? record(*std::move(outcome)) : give_up();
      case Held::nothing:
        return tell();
      default:
        break;
    }
    store::Command finished = store::Release{.id = ask().id, .fence = fence_};
    if (outcome) {
      finished = store::Complete{.id = ask().id,
                                 .fence = fence_,
                                 .state = outcome->state,
                                 .answer = std::move(outcome->answer)};
    }
    kernel_.execute(std::move(finished), [self = shared_from_this()](
                                             const base::Result<store::Answer>&) { self->tell(); });
  }

  void give_up() {
    kernel_.give_up(ask(), [self = shared_from_this()] { self->tell(); });
  }

  void record(store::Reserve::Outcome outcome) {
    ask().outcome = std::move(outcome);
    recording_ = shared_from_this();
    set_out(kernel_.port());
  }

  void done(base::Result<store::Answer> answer) override { is_recorded_ = answer.has_value(); }

  void go_on() override {
    const auto self = std::move(recording_);
    kernel_.recorded(ask().id, is_recorded_);
    tell();
  }

  /// None: the answer is not stored.
  std::optional<store::Reserve::Outcome> outcome_of(const Response& answer) const {
    if (!policy_->stored.contains(answer.status)) return std::nullopt;
    if (answer.body.size() > policy_->answer_bytes_max)
      return store::Reserve::Outcome{.state = store::ReservationState::not_retained, .answer = {}};
    return store::Reserve::Outcome{.answer = store_answer(answer)};
  }

  void tell() {
    timer_.reset();
    work().answer(std::move(answer_));
  }

  Kernel& kernel_;
  const std::shared_ptr<const Policy> policy_;

  std::mutex
      mutex_;  ///< of what follows, until the work is done and the key is held as what it is then
  Held held_ = Held::claim;
  store::Fence fence_ = 0;
  std::shared_ptr<void>
      timer_;  ///< when the claim has to become a reservation, or the lease to be renewed
  bool is_handled_ = false;
  Response answer_;

  // While it is recorded what came of a claim:
  std::shared_ptr<Exchange> recording_;  ///< itself
  bool is_recorded_ = false;
};

class KernelLayer final : public IdempotencyLayer {
 public:
  KernelLayer(IdempotencyStore& store, Policy policy)
      : store_(store), policy_(std::make_shared<const Policy>(std::move(policy))) {}

  void handle(const KeyedRequest& keyed, std::shared_ptr<KeyedWork> work) override {
    const Idempotent& wanted = *keyed.contract.idempotency;
    if (only_reads(keyed.request.method)) return run_unkeyed(work);
    auto key = key_of(keyed.request, wanted.header);
    if (!key) return work->answer(problem("IDEMPOTENCY_KEY_INVALID", key.error().message));
    if (!*key) {
      if (!wanted.required && !policy_->required) return run_unkeyed(work);
      return work->answer(
          problem("IDEMPOTENCY_KEY_REQUIRED", "this needs the header " + wanted.header));
    }
    store::Reserve ask;
    ask.id = {.workspace = store_.workspace(),
              .ns = namespace_of(keyed),
              .scope = scope_of(keyed),
              .key = **std::move(key)};
    ask.fingerprint = fingerprint_of(*policy_, keyed);
    // A hot replay needs nothing of what follows.
    if (auto finished = store_.kernel().remembered(ask.id, ask.fingerprint))
      return work->answer(answer_to(*policy_, Found{*std::move(finished)}));
    ask.lease = base::bounded(wanted.lease);
    ask.ttl = base::bounded(wanted.ttl);
    ask.on_abandoned = policy_->on_abandoned;
    // Handlers end with this process.
    const bool may_claim = policy_->on_abandoned == store::OnAbandoned::run;
    const auto exchange = std::make_shared<Exchange>(store_.kernel(), policy_, std::move(work));
    exchange->begin(std::move(ask), patience_of(*policy_, keyed.request), may_claim);
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
