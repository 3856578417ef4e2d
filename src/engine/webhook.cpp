// What webhooks answer, as workflows say it.
#include <semel/error.hpp>
#include <semel/hook.hpp>

#include <boost/json.hpp>

#include <algorithm>

namespace semel {

namespace {

constexpr std::string_view token_marks = "!#$%&'*+-.^_`|~";

bool is_name_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         token_marks.find(c) != std::string_view::npos;
}

bool is_value_character(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
}

void check(const WebhookAnswer& answer) {
  if (answer.status < 200 || answer.status > 599)
    throw Error("VALIDATION_ERROR", "/status: an answer has a status from 200 to 599");
  for (const auto& [name, text] : answer.headers) {
    if (name.empty() || !std::ranges::all_of(name, is_name_character) ||
        !std::ranges::all_of(text, is_value_character))
      throw Error("VALIDATION_ERROR", "/headers: a name or a value cannot be sent");
  }
}

std::string with_member(std::string shape, std::string_view name, const std::string& text) {
  shape.pop_back();
  return shape.append(",\"").append(name).append("\":").append(text).append("}");
}

}  // namespace

namespace detail {

std::string with_answer(std::string shape, const WebhookAnswer& answer) {
  check(answer);
  // It says that the payload was taken in; what a server answers otherwise, it does not remember under a key.
  if (answer.status > 299)
    throw Error("VALIDATION_ERROR", "/status: what was taken in is answered by 200 to 299");
  return with_member(std::move(shape), "answer", value::encode(answer));
}

std::string with_answer(std::string shape, AnswerWithin answer) {
  if (answer.time <= Millis{0} || answer.time > std::chrono::minutes{1})
    throw Error("VALIDATION_ERROR",
                "/time: whoever waits for an answer does so for up to a minute");
  return with_member(std::move(shape), "answerWithin", std::to_string(answer.time.count()));
}

}  // namespace detail

Op<void> answer(const WebhookRequest& request, const WebhookAnswer& answer) {
  check(answer);
  if (!request.answerId) {
    throw Error("VALIDATION_ERROR",
                "nobody waits for an answer: make the webhook with AnswerWithin");
  }
  return emit("webhook." + *request.answerId, answer);
}

}  // namespace semel
