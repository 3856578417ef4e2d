#include "http/keyed_answers.hpp"

#include "http/problem.hpp"
#include "http/stored_answer.hpp"
#include "idempotency/key_header.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <span>

namespace semel::http {

namespace {

using idempotency::FinishedAnswer;
using idempotency::Policy;

/// `Prefer: wait=5, …` in seconds (RFC 7240); of several the first. None: nothing usable was said.
std::optional<std::chrono::seconds> preferred_wait(const Request& request) {
  for (std::string_view line : lines_of(request, "prefer")) {
    while (!line.empty()) {
      const std::size_t comma = std::min(line.find(','), line.size());
      std::string_view part = line.substr(0, comma);
      line.remove_prefix(std::min(comma + 1, line.size()));
      part.remove_prefix(std::min(part.find_first_not_of(" \t"), part.size()));
      part = part.substr(0, part.find_first_of("; \t"));
      const std::size_t equals = part.find('=');
      if (equals == std::string_view::npos || !same_name(part.substr(0, equals), "wait")) continue;
      const std::string_view number = part.substr(equals + 1);
      std::int64_t seconds = 0;
      const auto [end, wrong] =
          std::from_chars(number.data(), number.data() + number.size(), seconds);
      if (wrong == std::errc{} && end == number.data() + number.size() && seconds >= 0 &&
          seconds <= std::chrono::seconds(std::chrono::hours{24}).count()) {
        return std::chrono::seconds{seconds};
      }
    }
  }
  return std::nullopt;
}

Response replayed(const FinishedAnswer& finished) {
  if (finished.state == store::ReservationState::not_retained) {
    return problem("IDEMPOTENCY_RESPONSE_NOT_RETAINED",
                   "the request was done; its answer was too large to keep");
  }
  auto answer = stored_answer(*finished.bytes);
  if (!answer) {
    return problem("IDEMPOTENCY_RESPONSE_NOT_RETAINED",
                   "the work under this key was done elsewhere and has no answer for HTTP");
  }
  answer->headers.push_back({"idempotency-replayed", "true"});
  return *std::move(answer);
}

}  // namespace

std::vector<std::string_view> lines_of(const Request& request, std::string_view name) {
  std::vector<std::string_view> lines;
  for (const HeaderView& header : request.headers) {
    if (same_name(header.name, name)) lines.push_back(header.value);
  }
  return lines;
}

base::Result<std::optional<std::string>> key_of(const Request& request, std::string_view header) {
  std::array<std::string_view, 2> lines;  // two are too many already
  std::size_t count = 0;
  for (const HeaderView& each : request.headers) {
    if (count < lines.size() && same_name(each.name, header)) lines[count++] = each.value;
  }
  return idempotency::parse_key_lines(std::span{lines}.first(count));
}

bool only_reads(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "TRACE";
}

idempotency::Patience patience_of(const idempotency::Policy& policy, const Request& request) {
  if (policy.in_flight == idempotency::InFlight::reject)
    return {.wait = {}, .waiters_max = policy.waiters_max};
  std::chrono::nanoseconds wait = policy.wait_default;
  if (const auto preferred = preferred_wait(request)) wait = *preferred;
  return {.wait = std::min<std::chrono::nanoseconds>(wait, policy.wait_max),
          .waiters_max = policy.waiters_max};
}

Response answer_to(const Policy& policy, const base::Result<idempotency::Found>& found) {
  if (!found) return problem("STORE_UNAVAILABLE", "the store is not available; nothing was done");
  if (const auto* finished = std::get_if<FinishedAnswer>(&*found)) return replayed(*finished);
  if (std::holds_alternative<store::KeyReused>(*found)) {
    return problem(policy.mismatch_status, "IDEMPOTENCY_CONFLICT",
                   "this idempotency key was used for another request");
  }
  if (std::holds_alternative<store::OutcomeUnknown>(*found)) {
    return problem("OUTCOME_UNKNOWN", "the request was begun, and nobody knows what came of it");
  }
  Response busy = problem("IDEMPOTENCY_IN_PROGRESS",
                          "a request with this idempotency key is still being handled");
  busy.headers.push_back({"retry-after", "1"});
  return busy;
}

void claim_nothing(Response& answer) {
  std::erase_if(answer.headers, [](const Header& header) {
    return same_name(header.name, "idempotency-replayed");
  });
}

}  // namespace semel::http
