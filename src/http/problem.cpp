#include "http/problem.hpp"

#include <semel/value.hpp>

#include <algorithm>
#include <array>

namespace semel::http {

namespace {

struct Reason {
  int status;
  std::string_view text;
};

constexpr auto reasons = std::to_array<Reason>({
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
});

struct Code {
  std::string_view code;
  int status;
  bool is_retryable = false;
};

constexpr auto codes = std::to_array<Code>({
    {"MALFORMED", 400},
    {"IDEMPOTENCY_KEY_INVALID", 400},
    {"IDEMPOTENCY_KEY_REQUIRED", 400},
    {"IDEMPOTENCY_SCOPE_REQUIRED", 400},
    {"UNAUTHENTICATED", 401},
    {"FORBIDDEN", 403},
    {"METHOD_NOT_ALLOWED", 405},
    {"TIMEOUT", 408},
    {"IDEMPOTENCY_CONFLICT", 409},
    {"IDEMPOTENCY_IN_PROGRESS", 409, true},
    {"IDEMPOTENCY_RESPONSE_NOT_RETAINED", 409},
    {"OUTCOME_UNKNOWN", 409},
    {"HOOK_CONFLICT", 409},
    {"HOOK_DISPOSED", 409},
    {"RUN_NOT_ACTIVE", 409},
    {"RUN_ACTIVE", 409},
    {"RUN_FINISHED", 409},
    {"CONCURRENCY_ERROR", 409, true},
    {"FENCE_LOST", 409},
    {"PAYLOAD_TOO_LARGE", 413},
    {"UNSUPPORTED_MEDIA_TYPE", 415},
    {"EXPECTATION_FAILED", 417},
    {"MISDIRECTED", 421},
    {"VALIDATION_ERROR", 422},
    {"RATE_LIMITED", 429, true},
    {"HEADERS_TOO_LARGE", 431},
    {"NOT_IMPLEMENTED", 501},
    {"UPSTREAM_UNAVAILABLE", 502, true},
    {"STORE_UNAVAILABLE", 503, true},
    {"UPSTREAM_TIMEOUT", 504, true},
});

const Code* find_code(std::string_view code) {
  const auto* found = std::ranges::find(codes, code, &Code::code);
  return found == codes.end() ? nullptr : found;
}

}  // namespace

std::string_view reason_of(int status) {
  const auto* found = std::ranges::find(reasons, status, &Reason::status);
  return found == reasons.end() ? std::string_view{} : found->text;
}

int status_of(std::string_view code) {
  if (code.ends_with("_NOT_FOUND")) return 404;
  const Code* known = find_code(code);
  return known == nullptr ? 500 : known->status;
}

bool is_retryable(std::string_view code) {
  const Code* known = find_code(code);
  return known != nullptr && known->is_retryable;
}

Response problem(int status, std::string_view code, std::string_view detail,
                 const boost::json::object& more) {
  boost::json::object body{{"type", "about:blank"}, {"title", reason_of(status)},
                           {"status", status},      {"detail", detail},
                           {"code", code},          {"retryable", is_retryable(code)}};
  for (const auto& member : more) body.insert_or_assign(member.key(), member.value());
  Response answer{status, {{"content-type", "application/problem+json"}}, value::to_text(body)};
  if (const auto* after = more.if_contains("retryAfter"))
    answer.headers.push_back({"retry-after", value::to_text(*after)});
  return answer;
}

Response problem(std::string_view code, std::string_view detail, const boost::json::object& more) {
  return problem(status_of(code), code, detail, more);
}

}  // namespace semel::http
