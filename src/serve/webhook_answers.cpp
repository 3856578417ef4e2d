#include "serve/webhook_answers.hpp"

#include "base/clock.hpp"
#include "base/random.hpp"
#include "journal/entry.hpp"
#include "serve/text.hpp"

#include <semel/value.hpp>

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace semel::serve {

namespace {

constexpr std::string_view place_header = "semel-answer-place";
constexpr std::chrono::milliseconds look_every{10};
constexpr std::size_t entries_at_once = 200;

/// Absent where this entry has none.
std::optional<WebhookAnswer> answer_in(const std::string& bytes, const std::string& stream) {
  const auto entry = journal::decode(bytes);
  if (!entry) return std::nullopt;
  for (const journal::Request& request : entry->requests) {
    if (request.kind != journal::RequestKind::emit || request.name != stream) continue;
    WebhookAnswer answer;
    if (!value::try_decode(request.value, answer, value::Mode::journal)) return answer;
  }
  return std::nullopt;
}

}  // namespace

WebhookPlan plan_of(const std::string& shape) {
  WebhookPlan plan;
  const Json parsed = value::from_text(shape);
  if (const Json* fixed = parsed.as_object().if_contains("answer")) {
    WebhookAnswer answer;
    if (!value::try_decode(value::to_text(*fixed), answer, value::Mode::journal))
      plan.fixed = std::move(answer);
  }
  if (const Json* within = parsed.as_object().if_contains("answerWithin"))
    plan.within = Millis{within->to_number<std::int64_t>()};
  return plan;
}

http::Response response_of(const WebhookAnswer& answer) {
  http::Response response{answer.status, {}, answer.body};
  for (const auto& [name, text] : answer.headers) response.headers.push_back({name, text});
  return response;
}

std::string new_answer_id() {
  base::SystemRandom random;
  return fmt::format("{:016x}{:016x}", random.next(), random.next());
}

http::Response promise_of(const AnswerPlace& place) {
  return {202,
          {{std::string(place_header), fmt::format("{} {} {} {}", place.answer_id, place.from,
                                                   place.within.count(), place.run_id)}},
          ""};
}

std::optional<AnswerPlace> take_place(http::Response& promise) {
  const auto header = std::ranges::find(promise.headers, place_header, &http::Header::name);
  if (header == promise.headers.end()) return std::nullopt;
  AnswerPlace place;
  std::int64_t within = 0;
  std::istringstream text(header->value);
  text >> place.answer_id >> place.from >> within >> place.run_id;
  place.within = Millis{within};
  promise.headers.erase(header);
  return place;
}

struct WebhookAnswers::Waiting {
  const std::string workspace;
  AnswerPlace place;  ///< `from` moves on with what was looked at
  const std::chrono::nanoseconds until;
  http::Response otherwise;  ///< 202, with what a replay says
  http::Responder responder;
};

void WebhookAnswers::keep(const std::string& workspace, http::Response answer,
                          http::Responder responder) {
  auto place = take_place(answer);
  if (!place) {
    responder.answer(std::move(answer));
    return;
  }
  const auto until = base::monotonic_now() + base::bounded(place->within);
  const auto waiting = std::make_shared<Waiting>(
      Waiting{workspace, *std::move(place), until, std::move(answer), std::move(responder)});
  {
    const std::lock_guard lock(mutex_);
    if (!is_dismissed_) waiting_.push_back(waiting);
    if (is_dismissed_) waiting->responder.answer(std::move(waiting->otherwise));
  }
  look_soon();
}

void WebhookAnswers::look_soon() {
  const std::lock_guard lock(mutex_);
  if (is_looking_ || waiting_.empty()) return;
  is_looking_ = true;
  timers_.after(look_every, [self = weak_from_this()] {
    const auto answers = self.lock();
    if (!answers) return;
    answers->submit_([self] {
      if (const auto alive = self.lock()) alive->look_at_all();
    });
  });
}

void WebhookAnswers::look_at_all() {
  std::list<std::shared_ptr<Waiting>> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting = std::exchange(waiting_, {});
  }
  std::erase_if(waiting, [this](const auto& each) { return look(*each); });
  {
    const std::lock_guard lock(mutex_);
    is_looking_ = false;
    if (is_dismissed_) {
      for (const auto& each : waiting) each->responder.answer(std::move(each->otherwise));
    } else {
      waiting_.splice(waiting_.end(), waiting);
    }
  }
  look_soon();
}

/// True: it was answered.
bool WebhookAnswers::look(Waiting& waiting) {
  const auto reader = driver_->reader();
  const auto run = reader->find(waiting.workspace, waiting.place.run_id);
  const bool is_there = run && *run;
  const std::string stream = "webhook." + waiting.place.answer_id;
  bool is_read = !is_there;
  while (!is_read) {
    const auto entries = reader->journal((*run)->key, waiting.place.from, entries_at_once);
    if (!entries) break;
    for (const store::StoredEntry& stored : *entries) {
      waiting.place.from = stored.seq + 1;
      auto answer = answer_in(stored.bytes, stream);
      if (!answer) continue;
      http::Response response = response_of(*answer);
      for (http::Header& header : waiting.otherwise.headers)
        response.headers.push_back(std::move(header));
      waiting.responder.answer(std::move(response));
      return true;
    }
    is_read = entries->size() < entries_at_once;
  }
  const bool is_over = !is_there || store::is_end((*run)->status);
  if (!is_over && base::monotonic_now() < waiting.until) return false;
  waiting.responder.answer(std::move(waiting.otherwise));
  return true;
}

void WebhookAnswers::dismiss() {
  const std::lock_guard lock(mutex_);
  is_dismissed_ = true;
  for (const auto& each : std::exchange(waiting_, {}))
    each->responder.answer(std::move(each->otherwise));
}

}  // namespace semel::serve
