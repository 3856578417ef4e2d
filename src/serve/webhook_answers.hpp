// What whoever sends something to a webhook hears: at once, or what the run answers. The answer is in the run's journal, as
// an entry of a stream that has the request's name; one look at the store serves all who wait.
#pragma once

#include "engine/driver.hpp"
#include "http/listener.hpp"
#include "idempotency/timers.hpp"

#include <semel/hook.hpp>

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace semel::serve {

/// As the hook says; neither: 202.
struct WebhookPlan {
  std::optional<WebhookAnswer> fixed;
  std::optional<Millis> within;
};

WebhookPlan plan_of(const std::string& shape);

http::Response response_of(const WebhookAnswer& answer);

/// Where an answer is to be found.
struct AnswerPlace {
  std::string run_id;
  std::string answer_id;
  store::Seq from = 0;  ///< no entry before this one has it
  Millis within{};

  friend bool operator==(const AnswerPlace&, const AnswerPlace&) = default;
};

std::string new_answer_id();

/// A 202 that says where the answer will be. Never sent: it is what is stored under a key, so that a repeat finds the answer
/// too.
http::Response promise_of(const AnswerPlace& place);

/// Takes the place out of a promise; none: it is an answer.
std::optional<AnswerPlace> take_place(http::Response& promise);

class WebhookAnswers : public std::enable_shared_from_this<WebhookAnswers> {
 public:
  /// `submit` has work done by a thread that may block.
  WebhookAnswers(std::shared_ptr<engine::Driver> driver,
                 std::function<void(std::function<void()>)> submit)
      : driver_(std::move(driver)), submit_(std::move(submit)) {}

  /// Answers, once what was promised is there or its time is over. Does not block.
  void keep(const std::string& workspace, http::Response answer, http::Responder responder);

  /// Whoever waits hears 202, and so do those to come.
  void dismiss();

 private:
  struct Waiting;

  void look_soon();
  void look_at_all();
  bool look(Waiting& waiting);

  std::shared_ptr<engine::Driver> driver_;
  std::function<void(std::function<void()>)> submit_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Waiting>> waiting_;
  bool is_looking_ = false;
  bool is_dismissed_ = false;
  idempotency::Timers timers_;
};

}  // namespace semel::serve
