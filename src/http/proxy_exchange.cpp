#include "http/proxy_exchange.hpp"

#include "base/clock.hpp"
#include "http/keyed_answers.hpp"
#include "http/problem.hpp"
#include "http/proxy_headers.hpp"
#include "http/stored_answer.hpp"
#include "idempotency/request_fingerprint.hpp"

#include <algorithm>
#include <utility>

namespace semel::http {

namespace {

using idempotency::Found;

/// What is read at most of an answer that says who may.
constexpr std::size_t auth_answer_bytes_max = std::size_t{1} << 20U;

Response answer_to_fault(UpstreamFault fault) {
  switch (fault) {
    case UpstreamFault::not_sent:
      return problem("UPSTREAM_UNAVAILABLE", "the server behind this proxy cannot be reached");
    case UpstreamFault::timed_out:
      return problem("UPSTREAM_TIMEOUT", "the server behind this proxy did not answer in time");
    case UpstreamFault::body_lost:
      return problem("TIMEOUT", "the body did not arrive");
    default:
      return problem("UPSTREAM_UNAVAILABLE",
                     "the server behind this proxy broke off before its answer was complete");
  }
}

/// A status that HTTP has no room for cannot be passed on.
bool can_be_passed_on(const AnswerHead& head) { return head.status >= 200 && head.status <= 599; }

/// Passes parts on to the client: the next is read when the last has left. Whoever drops it cuts the client off.
class Parts {
 public:
  explicit Parts(AnswerStream stream) : stream_(std::move(stream)) {}

  void write(std::string bytes, UpstreamListener::GoOn go_on) {
    stream_.write(std::move(bytes), [go_on = std::move(go_on)](bool has_left) {
      if (has_left) go_on();
    });
  }

  void finish() { stream_.finish(); }

 private:
  AnswerStream stream_;
};

class PassThrough final : public UpstreamListener {
 public:
  explicit PassThrough(ProxyAnswer answer) : answer_(std::move(answer)), body_(answer_.body()) {}

  void next_body_part(std::function<void(BodyPart)> then) override { body_.read(std::move(then)); }

  void heard_whole(AnswerHead head, std::string body) override {
    if (!can_be_passed_on(head)) return failed(UpstreamFault::broken);
    Response response = passed_on(std::move(head));
    response.body = std::move(body);
    answer_.answer("passed", std::move(response));
  }

  void heard_head(AnswerHead head, GoOn go_on) override {
    if (!can_be_passed_on(head)) return failed(UpstreamFault::broken);
    const auto length = head.length;
    parts_.emplace(answer_.stream("passed", passed_on(std::move(head)), length));
    go_on();
  }

  void heard_part(std::string bytes, GoOn go_on) override {
    parts_->write(std::move(bytes), std::move(go_on));
  }

  void heard_end() override { parts_->finish(); }

  void failed(UpstreamFault fault) override {
    parts_.reset();
    if (answer_.is_open()) answer_.answer("failed", answer_to_fault(fault));
  }

 private:
  ProxyAnswer answer_;
  BodyStream body_;
  std::optional<Parts> parts_;
};

/// Reads a whole answer: 2xx is a yes.
class AuthCheck final : public UpstreamListener {
 public:
  using Verdict = std::function<void(std::optional<Response> refusal, std::string_view outcome)>;

  explicit AuthCheck(Verdict verdict) : verdict_(std::move(verdict)) {}

  void next_body_part(std::function<void(BodyPart)> then) override {
    then({BodyPart::State::last});
  }

  void heard_whole(AnswerHead head, std::string body) override {
    if (!can_be_passed_on(head) || body.size() > auth_answer_bytes_max)
      return failed(UpstreamFault::broken);
    answer_ = passed_on(std::move(head));
    answer_.body = std::move(body);
    heard_end();
  }

  void heard_head(AnswerHead head, GoOn go_on) override {
    if (!can_be_passed_on(head)) return failed(UpstreamFault::broken);
    answer_ = passed_on(std::move(head));
    go_on();
  }

  void heard_part(std::string bytes, GoOn go_on) override {
    answer_.body += bytes;
    if (answer_.body.size() > auth_answer_bytes_max) return failed(UpstreamFault::broken);
    go_on();
  }

  void heard_end() override {
    if (answer_.status < 300) {
      verdict_(std::nullopt, "");
    } else {
      verdict_(std::move(answer_), "refused");
    }
  }

  void failed(UpstreamFault fault) override { verdict_(answer_to_fault(fault), "failed"); }

 private:
  Verdict verdict_;
  Response answer_;
};

/// Everything happens one after the other, on the threads of the store and of the upstream.
class KeyedExchange final : public UpstreamListener,
                            public std::enable_shared_from_this<KeyedExchange> {
 public:
  KeyedExchange(Keyed keyed, ProxyAnswer answer)
      : keyed_(std::move(keyed)), answer_(std::move(answer)), id_(keyed_.ask.id) {}

  void begin() {
    if (!keyed_.auth_check) return reserve();
    keyed_.auth_check->send(
        std::move(keyed_.auth_request),
        std::make_shared<AuthCheck>(
            [self = shared_from_this()](std::optional<Response> refusal, std::string_view outcome) {
              if (refusal) {
                self->answer_.answer(outcome, *std::move(refusal));
              } else {
                self->reserve();
              }
            }));
  }

  void next_body_part(std::function<void(BodyPart)> then) override {
    then({BodyPart::State::last});
  }

  void heard_whole(AnswerHead head, std::string body) override {
    if (!can_be_passed_on(head)) return failed(UpstreamFault::broken);
    take_head(std::move(head));
    response_.body = std::move(body);
    if (has_events_ || response_.body.size() > policy().answer_bytes_max) {
      begin_stream([self = shared_from_this()] { self->parts_->finish(); });
    } else {
      heard_end();
    }
  }

  void heard_head(AnswerHead head, GoOn go_on) override {
    if (!can_be_passed_on(head)) return failed(UpstreamFault::broken);
    take_head(std::move(head));
    if (has_events_) {
      begin_stream(std::move(go_on));
    } else {
      go_on();
    }
  }

  void heard_part(std::string bytes, GoOn go_on) override {
    if (parts_) return parts_->write(std::move(bytes), std::move(go_on));
    response_.body += bytes;
    if (response_.body.size() > policy().answer_bytes_max) {
      begin_stream(std::move(go_on));
    } else {
      go_on();
    }
  }

  void heard_end() override {
    if (parts_) return parts_->finish();
    settle(outcome_of(response_), [self = shared_from_this()] {
      self->answer_.answer("executed", std::move(self->response_));
    });
  }

  void failed(UpstreamFault fault) override {
    parts_.reset();
    if (!answer_.is_open()) return;
    store::Command command = released();
    if (fault != UpstreamFault::not_sent && policy().on_abandoned == store::OnAbandoned::unknown)
      command = completed(store::ReservationState::unknown, {});
    settle(std::move(command), [self = shared_from_this(), fault] {
      self->answer_.answer("failed", answer_to_fault(fault));
    });
  }

 private:
  const idempotency::Policy& policy() const { return keyed_.rules.policy; }

  void take_head(AnswerHead head) {
    length_ = head.length;
    has_events_ = std::ranges::any_of(head.headers, [](const Header& header) {
      return same_name(header.name, "content-type") &&
             idempotency::media_type(header.value) == "text/event-stream";
    });
    response_ = passed_on(std::move(head));
  }

  void reserve() {
    keyed_.kernel.reserve(
        std::move(keyed_.ask), keyed_.patience,
        [self = shared_from_this()](const base::Result<Found>& found) { self->reserved(found); });
  }

  void reserved(const base::Result<Found>& found) {
    const auto* acquired = found ? std::get_if<store::Acquired>(&*found) : nullptr;
    if (acquired == nullptr) {
      const bool is_replay = found && std::holds_alternative<idempotency::FinishedAnswer>(*found);
      answer_.answer(is_replay ? "replayed" : "refused", answer_to(policy(), found));
      return;
    }
    fence_ = acquired->fence;
    kept_ = keyed_.kernel.keep(id_, fence_, base::bounded(policy().lease));
    keyed_.upstream->send(std::move(keyed_.request), shared_from_this());
  }

  store::Command released() const { return store::Release{.id = id_, .fence = fence_}; }

  store::Command completed(store::ReservationState state, std::string answer) const {
    return store::Complete{.id = id_, .fence = fence_, .state = state, .answer = std::move(answer)};
  }

  store::Command outcome_of(const Response& response) const {
    if (!policy().stored.contains(response.status)) return released();
    if (response.body.size() > policy().answer_bytes_max)
      return completed(store::ReservationState::not_retained, {});
    return completed(store::ReservationState::completed, store_answer(response));
  }

  /// The client hears of it when it is durable. Where the store failed or the lease was lost it hears of it all the same: the
  /// upstream has done its work.
  void settle(store::Command command, std::function<void()> then) {
    keyed_.kernel.execute(std::move(command), [self = shared_from_this(), then = std::move(then)](
                                                  const base::Result<store::Answer>&) {
      self->kept_.reset();
      then();
    });
  }

  /// The answer is not kept: that is written down, then it streams.
  void begin_stream(GoOn go_on) {
    const bool counts = policy().stored.contains(response_.status);
    settle(counts ? completed(store::ReservationState::not_retained, {}) : released(),
           [self = shared_from_this(), go_on = std::move(go_on)] {
             self->parts_.emplace(
                 self->answer_.stream("executed", std::move(self->response_), self->length_));
             go_on();
           });
  }

  Keyed keyed_;
  ProxyAnswer answer_;
  const store::ReservationId id_;
  store::Fence fence_ = 0;
  std::shared_ptr<void> kept_;
  Response response_;
  std::optional<std::uint64_t> length_;
  bool has_events_ = false;
  std::optional<Parts> parts_;
};

}  // namespace

ProxyAnswer::ProxyAnswer(Responder responder, const Request& request,
                         std::shared_ptr<const AccessLogger> log)
    : responder_(std::move(responder)), log_(std::move(log)) {
  if (!log_) return;
  line_.method = request.method;
  line_.path = request.path;
  line_.took = base::monotonic_now();
}

void ProxyAnswer::answer(std::string_view outcome, Response response) {
  log(outcome, response.status);
  responder_->answer(std::move(response));
  responder_.reset();
}

AnswerStream ProxyAnswer::stream(std::string_view outcome, Response head,
                                 std::optional<std::uint64_t> length) {
  log(outcome, head.status);
  AnswerStream stream = responder_->stream(std::move(head), length);
  responder_.reset();
  return stream;
}

void ProxyAnswer::log(std::string_view outcome, int status) {
  if (!log_) return;
  line_.status = status;
  line_.outcome = outcome;
  line_.took = base::monotonic_now() - line_.took;
  (*log_)(line_);
}

void pass_through(Upstream& upstream, UpstreamRequest request, ProxyAnswer answer) {
  upstream.send(std::move(request), std::make_shared<PassThrough>(std::move(answer)));
}

void execute_once(Keyed keyed, ProxyAnswer answer) {
  std::make_shared<KeyedExchange>(std::move(keyed), std::move(answer))->begin();
}

}  // namespace semel::http
