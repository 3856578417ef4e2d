#include "serve/action.hpp"

#include "http/keyed_answers.hpp"
#include "http/problem.hpp"
#include "http/server_core.hpp"
#include "http/stored_answer.hpp"
#include "idempotency/key_header.hpp"
#include "idempotency/policy.hpp"
#include "idempotency/request_fingerprint.hpp"
#include "idempotency/scope.hpp"

#include <boost/json.hpp>

#include <utility>
#include <vector>

namespace semel::serve {

namespace {

using http::problem;
using http::Response;
using idempotency::FinishedAnswer;
using store::ReservationState;

struct Key {
  store::ReservationId id;
  std::string fingerprint;
};

const idempotency::Policy& policy() {
  static const idempotency::Policy standard = *idempotency::preset("default");
  return standard;
}

std::vector<std::string_view> key_lines(const http::Request& request) {
  if (request.method != "POST" && request.method != "PUT" && request.method != "PATCH") return {};
  return http::lines_of(request, "idempotency-key");
}

Key key_of(const Asked& asked, std::string key) {
  const http::Request& request = asked.request;
  return {.id = {.workspace = asked.workspace,
                 .ns = idempotency::endpoint_namespace(policy(), request.method, request.path),
                 .scope = idempotency::scope_text({{"actor", asked.actor}}),
                 .key = std::move(key)},
          .fingerprint = idempotency::request_fingerprint(
              policy().compared, {.method = request.method,
                                  .path = request.path,
                                  .query = request.query,
                                  .content_type = request.header("content-type").value_or(""),
                                  .is_encoded = request.header("content-encoding").has_value(),
                                  .body = request.body})};
}

Response replayed(ReservationState state, std::string_view bytes) {
  if (state == ReservationState::not_retained) {
    boost::json::object more;
    if (!bytes.empty()) more["id"] = bytes;
    return problem("IDEMPOTENCY_RESPONSE_NOT_RETAINED",
                   "the request was done; its answer was not kept", more);
  }
  auto answer = http::stored_answer(bytes);
  if (!answer) {
    return problem("IDEMPOTENCY_RESPONSE_NOT_RETAINED",
                   "the work under this key was done elsewhere and has no answer for HTTP");
  }
  answer->headers.push_back({"idempotency-replayed", "true"});
  return *std::move(answer);
}

std::string id_in(const Response& answer) {
  return std::string(value::from_text(answer.body).at("id").as_string());
}

/// One request inside the transaction. The key is looked up, and taken once the effect has succeeded: so what is refused writes
/// nothing. Where others write to the store, too, somebody may have taken it in between; then all of it is undone, and done
/// over from the look on. (Two who take it at the same time are told apart by the unique index.)
class ActionWork final : public store::Work {
 public:
  ActionWork(Effect effect, std::optional<Key> key, Kept kept, Charge charge,
             std::shared_ptr<const void> alive)
      : alive_(std::move(alive)),
        effect_(std::move(effect)),
        key_(std::move(key)),
        kept_(kept),
        charge_(std::move(charge)) {}

  std::string run(store::UnitOfWork& unit) override {
    if (undo_) std::exchange(undo_, nullptr)();
    after_commit = nullptr;
    finished.reset();
    found.reset();
    was_overtaken = false;
    if (key_) {
      if (auto known = look_up(unit)) {
        answer = *std::move(known);
        return {};
      }
      // Only here is it known not to be a replay; those are never too many.
      if (!std::exchange(is_charged_, true)) refusal_ = charge_(key_->id.workspace);
      if (refusal_) {
        answer = *refusal_;
        return {};
      }
    }
    Unit inside{unit, after_commit, undo_};
    answer = effect_(inside);
    if (key_ && answer.status / 100 == 2) keep(unit);
    return {};
  }

  bool is_repeatable() const override { return true; }

  const std::optional<Key>& key() const { return key_; }

  Response answer;
  std::optional<FinishedAnswer> finished;   ///< what was replayed
  std::optional<idempotency::Found> found;  ///< under the key, where nothing was replayed
  std::function<void()> after_commit;
  bool was_overtaken = false;  ///< by another process with the same key: to be done over

 private:
  std::optional<Response> look_up(store::UnitOfWork& unit) {
    const store::Answer answered =
        unit.execute(store::FindReservation{.id = key_->id, .now = unit.now()});
    const auto* there = std::get_if<store::ReservationFound>(&answered);
    if (there == nullptr) return std::nullopt;
    const store::ReservationRecord& reservation = there->reservation;
    if (reservation.fingerprint != key_->fingerprint) found = store::KeyReused{};
    if (!found && reservation.state == ReservationState::in_progress) found = store::InProgress{};
    if (found) return http::answer_to(policy(), *found);
    finished = FinishedAnswer{.state = reservation.state,
                              .bytes = std::make_shared<const std::string>(reservation.answer),
                              .expires_at = reservation.expires_at};
    return replayed(reservation.state, reservation.answer);
  }

  void keep(store::UnitOfWork& unit) {
    const store::Answer reserved = unit.execute(store::Reserve{
        .id = key_->id, .fingerprint = key_->fingerprint, .owner = {}, .now = unit.now()});
    const auto* mine = std::get_if<store::Acquired>(&reserved);
    if (mine == nullptr) {
      was_overtaken = true;
      throw Error("CONCURRENCY_ERROR", "somebody else has taken the key");
    }
    found = *mine;
    std::string bytes = kept_ == Kept::id ? id_in(answer) : http::store_answer(answer);
    const bool is_whole = kept_ == Kept::whole && answer.body.size() <= policy().answer_bytes_max;
    if (!is_whole && kept_ == Kept::whole) bytes.clear();
    unit.execute(store::Complete{
        .id = key_->id,
        .fence = mine->fence,
        .state = is_whole ? ReservationState::completed : ReservationState::not_retained,
        .answer = std::move(bytes),
        .now = unit.now()});
  }

  const std::shared_ptr<const void> alive_;
  const Effect effect_;
  const std::optional<Key> key_;
  const Kept kept_;
  const Charge charge_;
  bool is_charged_ = false;
  std::optional<Response> refusal_;  ///< because it was one request too many
  std::function<void()> undo_;
};

/// A request on its way to the store.
struct Submitted {
  std::shared_ptr<engine::Driver> driver;
  std::shared_ptr<idempotency::Kernel> kernel;
  std::shared_ptr<ActionWork> work;
  Actions::Done done;
  idempotency::AnswerCache::Ticket ticket = 0;
};

Response answer_of(ActionWork& work,
                   const std::variant<engine::TransactReply, engine::Refusal>& reply) {
  if (const auto* refusal = std::get_if<engine::Refusal>(&reply)) return refused(*refusal);
  if (const auto& error = std::get<engine::TransactReply>(reply).error)
    return http::detail::answer_to(error);
  if (work.after_commit) work.after_commit();
  return std::move(work.answer);
}

void submit(Submitted submitted);

void finish(Submitted& submitted,
            const std::variant<engine::TransactReply, engine::Refusal>& result) {
  const auto& [driver, kernel, work, done, ticket] = submitted;
  const bool is_done = std::holds_alternative<engine::TransactReply>(result);
  // Whoever was quicker has committed: this time their answer is found.
  if (is_done && work->was_overtaken) return submit(std::move(submitted));
  if (is_done && work->found) kernel->count(*work->found);
  if (is_done && work->finished && work->key())
    kernel->remember(work->key()->id, work->key()->fingerprint, *work->finished, ticket);
  done(answer_of(*work, result));
}

void submit(Submitted submitted) {
  const auto shared = std::make_shared<Submitted>(std::move(submitted));
  const bool posted = shared->driver->post([shared](engine::Loop& loop, TimePoint now) {
    loop.transact(shared->work, [shared](const auto& result) { finish(*shared, result); }, now);
  });
  if (!posted) shared->done(problem("STORE_UNAVAILABLE", "the engine has stopped"));
}

}  // namespace

http::Response refused(const engine::Refusal& refusal) {
  boost::json::object more;
  if (!refusal.run_id.empty() && !refusal.code.ends_with("_NOT_FOUND"))
    more["runId"] = refusal.run_id;
  std::string detail = refusal.message;
  if (refusal.code == "VALIDATION_ERROR") {
    // Where the path is not told apart the message begins with it: "/seq: out of range".
    const std::size_t colon = detail.find(": ");
    const bool has_path = detail.starts_with('/') && colon != std::string::npos;
    more["field"] = has_path ? detail.substr(0, colon) : refusal.path;
    more.erase("runId");
  }
  return problem(refusal.code, detail, more);
}

void Actions::perform(const Asked& asked, Effect effect, http::Responder responder, Kept kept) {
  const auto client = std::make_shared<http::Responder>(std::move(responder));
  perform(
      asked, std::move(effect),
      [client](http::Response answer) { client->answer(std::move(answer)); }, kept);
}

void Actions::perform(const Asked& asked, Effect effect, Done done, Kept kept) {
  auto header = idempotency::parse_key_lines(key_lines(asked.request));
  if (!header) {
    done(problem("IDEMPOTENCY_KEY_INVALID", header.error().message));
    return;
  }
  std::optional<Key> key;
  idempotency::AnswerCache::Ticket ticket = 0;
  if (*header) {
    key = key_of(asked, **std::move(header));
    if (const auto known = kernel_->remembered(key->id, key->fingerprint)) {
      done(replayed(known->state, *known->bytes));
      return;
    }
    ticket = kernel_->ticket(key->id);
  } else if (auto refusal = charge_(asked.workspace)) {
    done(*std::move(refusal));
    return;
  }
  const auto work =
      std::make_shared<ActionWork>(std::move(effect), std::move(key), kept, charge_, asked.alive);
  submit({driver_, kernel_, work, std::move(done), ticket});
}

}  // namespace semel::serve
