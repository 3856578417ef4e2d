#include "app/cli_events.hpp"

#include <semel/error.hpp>
#include <semel/value.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <utility>

namespace semel::app {

namespace {

constexpr int attempts_max = 10;
constexpr std::chrono::milliseconds wait_first{100};
constexpr std::chrono::seconds wait_max{5};
/// A server says that it is still there every 15 s.
constexpr std::chrono::seconds silence_max{45};

/// A problem as an Error.
Error error_in(const http::Response& answer) {
  std::string code = "HTTP_ERROR";
  std::string detail = "the server answered " + std::to_string(answer.status);
  try {
    const Json body = value::from_text(answer.body);
    code = std::string(body.at("code").as_string());
    detail = std::string(body.at("detail").as_string());
  } catch (const std::exception&) {
    // Some other server's page: its status is all there is to say.
    return {code, detail};
  }
  return {code, detail};
}

bool may_pass(int status) { return status == 429 || status == 503; }

}  // namespace

void EventReader::feed(std::string_view bytes, const std::function<void(const Event&)>& each) {
  for (const char c : bytes) {
    if (c != '\n') {
      line_.push_back(c);
      continue;
    }
    if (line_.ends_with('\r')) line_.pop_back();
    take_line(line_, each);
    line_.clear();
  }
}

void EventReader::take_line(std::string_view line, const std::function<void(const Event&)>& each) {
  if (line.empty()) {
    if (has_data_) each(event_);
    event_ = {};
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view text = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (text.starts_with(' ')) text.remove_prefix(1);
  if (name == "id") event_.id = text;
  if (name == "event") event_.kind = text;
  if (name == "data") {
    if (std::exchange(has_data_, true)) event_.data += '\n';
    event_.data += text;
  }
}

void follow_events(http::ClientTransport& transport, http::Outgoing request,
                   const std::function<bool(const Event&)>& each,
                   const std::function<void(std::chrono::nanoseconds)>& wait) {
  request.headers.push_back({"accept", "text/event-stream"});
  std::chrono::nanoseconds pause = wait_first;
  for (int attempt = 1;; ++attempt) {
    EventReader reader;
    bool goes_on = true;
    const auto outcome = transport.follow(request, silence_max, [&](std::string_view part) {
      reader.feed(part, [&](const Event& event) {
        if (!goes_on) return;
        attempt = 0;
        pause = wait_first;
        if (!event.id.empty()) {
          std::erase_if(request.headers,
                        [](const http::Header& header) { return header.name == "last-event-id"; });
          request.headers.push_back({"last-event-id", event.id});
        }
        goes_on = each(event);
      });
      return goes_on;
    });
    if (!goes_on) return;
    const auto* answer = std::get_if<http::Response>(&outcome);
    if (answer != nullptr && answer->status != 200 && !may_pass(answer->status))
      throw error_in(*answer);
    if (attempt >= attempts_max) {
      const auto* none = std::get_if<http::NoAnswer>(&outcome);
      throw Error("CONNECTION_FAILED", none == nullptr ? "the events end too early" : none->reason);
    }
    wait(pause);
    pause = std::min<std::chrono::nanoseconds>(pause * 2, wait_max);
  }
}

}  // namespace semel::app
