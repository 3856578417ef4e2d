#include "http/characters.hpp"
#include "http/client_core.hpp"
#include "http/problem.hpp"
#include "http/target.hpp"

#include <semel/http.hpp>

#include <boost/json.hpp>

#include <charconv>
#include <cmath>
#include <condition_variable>

namespace semel::http {

namespace detail {

namespace {

constexpr std::string_view default_key_header = "idempotency-key";

bool is_safe(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

std::string target_of(const ContractSpec& contract, const CallOptions& options) {
  std::string target;
  std::string_view rest = contract.path;
  for (std::size_t open = 0; (open = rest.find('{')) != std::string_view::npos;) {
    const std::size_t close = std::min(rest.find('}', open), rest.size() - 1);
    const std::string name{rest.substr(open + 1, close - open - 1)};
    const auto given = options.path.find(name);
    // An empty part would make it another path.
    if (given == options.path.end() || given->second.empty())
      throw Error("VALIDATION_ERROR",
                  "the path of " + contract.name + " needs a value for " + name);
    target.append(rest.substr(0, open)).append(percent_encoded(given->second));
    rest.remove_prefix(close + 1);
  }
  target += rest;
  char separator = '?';
  for (const auto& [name, value] : options.query) {
    target.append(1, std::exchange(separator, '&'))
        .append(percent_encoded(name))
        .append(1, '=')
        .append(percent_encoded(value));
  }
  return target;
}

void set_header(std::vector<Header>& headers, const std::string& name, std::string value) {
  std::erase_if(headers, [&](const Header& each) { return same_name(each.name, name); });
  headers.push_back({name, std::move(value)});
}

const std::string* find_header(const std::vector<Header>& headers, std::string_view name) {
  for (const Header& each : headers) {
    if (same_name(each.name, name)) return &each.value;
  }
  return nullptr;
}

/// The members of a problem; empty where the answer is none.
boost::json::object problem_in(const Response& answer) {
  try {
    Json body = value::from_text(answer.body);
    if (body.is_object()) return std::move(body.get_object());
  } catch (const ValidationError&) {
    return {};  // some other server's page
  }
  return {};
}

std::string text_in(const boost::json::object& object, std::string_view name) {
  const Json* found = object.if_contains(name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string{};
}

[[noreturn]] void throw_problem(const Response& answer) {
  boost::json::object body = problem_in(answer);
  const std::string code = text_in(body, "code");
  const std::string detail = text_in(body, "detail");
  if (code == "VALIDATION_ERROR") {
    const std::string field = text_in(body, "field");
    const std::string prefix = (field.empty() ? "/" : field) + ": ";
    throw ValidationError(field,
                          detail.starts_with(prefix) ? detail.substr(prefix.size()) : detail);
  }
  if (code == "IDEMPOTENCY_CONFLICT") throw IdempotencyConflictError(code, detail);
  if (code == "IDEMPOTENCY_IN_PROGRESS") throw IdempotencyInProgressError(code, detail);
  if (!code.empty()) throw ProblemError(answer.status, code, detail, std::move(body));
  const std::string status = std::to_string(answer.status);
  throw ProblemError(answer.status, "HTTP_" + status,
                     "the server answered " + status + " " + std::string(reason_of(answer.status)));
}

bool is_worth_repeating(const Response& answer) {
  switch (answer.status) {
    case 408:
    case 425:
    case 429:
      return true;
    case 409:
      return text_in(problem_in(answer), "code") == "IDEMPOTENCY_IN_PROGRESS";
    default:
      return answer.status >= 500;
  }
}

}  // namespace

ClientSources system_sources() {
  return {.clock = std::make_unique<base::SystemClock>(),
          .random = std::make_unique<base::SystemRandom>(),
          .monotonic_now = &base::monotonic_now,
          .wait = [](std::chrono::nanoseconds time) {
            std::mutex mutex;
            std::condition_variable never;
            std::unique_lock lock(mutex);
            never.wait_for(lock, time, [] { return false; });
          }};
}

std::string key_header_value(std::string_view key) {
  const auto is_printable = [](char c) { return c >= 0x20 && c <= 0x7E; };
  if (key.empty() || key.size() > 255 || !std::ranges::all_of(key, is_printable)) {
    throw Error("IDEMPOTENCY_KEY_INVALID",
                "an idempotency key is 1 to 255 printable ASCII characters");
  }
  // A bare key that begins with a quote would be read as a quoted one.
  if (key.find_first_of(" \",") == std::string_view::npos) return std::string(key);
  std::string quoted = "\"";
  for (const char c : key) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::optional<std::chrono::nanoseconds> read_retry_after(std::string_view value, TimePoint now) {
  if (!value.empty() && value.size() <= 9 && std::ranges::all_of(value, is_digit)) {
    std::int64_t seconds = 0;
    std::from_chars(value.data(), value.data() + value.size(), seconds);
    return std::chrono::seconds{seconds};
  }
  // "Sun, 06 Nov 1994 08:49:37 GMT"
  constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (value.size() != 29 || !value.ends_with(" GMT")) return std::nullopt;
  const auto number = [&](std::size_t at, std::size_t size) {
    int read = -1;
    std::from_chars(value.data() + at, value.data() + at + size, read);
    return read;
  };
  const std::size_t month = months.find(value.substr(8, 3));
  const std::chrono::year_month_day date{std::chrono::year{number(12, 4)},
                                         std::chrono::month{static_cast<unsigned>(month / 3 + 1)},
                                         std::chrono::day{static_cast<unsigned>(number(5, 2))}};
  if (month == std::string_view::npos || !date.ok() || number(17, 2) < 0) return std::nullopt;
  const TimePoint then = std::chrono::sys_days{date} + std::chrono::hours{number(17, 2)} +
                         std::chrono::minutes{number(20, 2)} + std::chrono::seconds{number(23, 2)};
  return std::max<std::chrono::nanoseconds>(then - now, std::chrono::nanoseconds{0});
}

ClientCore::ClientCore(const std::string& url, ClientOptions options, ClientSources sources)
    : options_(std::move(options)),
      sources_(std::move(sources)),
      transport_(ClientTransport::open(read_origin(url),
                                       {.answer_bytes_max = options_.answer_bytes_max,
                                        .idle_connections_max = options_.idle_connections_max,
                                        .ca_file = options_.ca_file})) {}

std::string ClientCore::new_key() {
  const std::lock_guard lock(chance_);
  return base::make_uuid_v7(*sources_.random, sources_.clock->now());
}

Outgoing ClientCore::outgoing(const ContractSpec& contract, std::string body,
                              const CallOptions& options) {
  Outgoing request{contract.method,
                   target_of(contract, options),
                   {},
                   std::move(body),
                   !contract.request_shape.empty()};
  for (const auto* headers : {&options_.headers, &options.headers}) {
    for (const auto& [name, value] : *headers) set_header(request.headers, name, value);
  }
  for (const Header& header : request.headers) {
    if (!std::ranges::all_of(header.name, is_token_character) ||
        !std::ranges::all_of(header.value, is_value_character))
      throw Error("VALIDATION_ERROR", "a header holds characters that no header may");
  }
  if (request.has_body) set_header(request.headers, "content-type", "application/json");
  const std::string key_header =
      contract.idempotency ? contract.idempotency->header : std::string(default_key_header);
  if (options.idempotency_key) {
    set_header(request.headers, key_header, key_header_value(*options.idempotency_key));
  } else if (contract.idempotency && !is_safe(contract.method) &&
             find_header(request.headers, key_header) == nullptr) {
    set_header(request.headers, key_header, new_key());
  }
  return request;
}

/// Longer each time, a part of it by chance so that clients do not come back all at once; never less than the server
/// asked for.
std::chrono::nanoseconds ClientCore::pause(int attempt, const Response* answer) {
  const double all =
      std::min(static_cast<double>(options_.backoff.count()) * std::pow(2.0, attempt - 1),
               static_cast<double>(options_.backoff_max.count()));
  double part = 0;
  {
    const std::lock_guard lock(chance_);
    part = base::unit_interval(*sources_.random);
  }
  const std::chrono::duration<double, std::milli> drawn{all * (0.5 + part / 2)};
  auto time = base::bounded(drawn);
  if (answer == nullptr) return time;
  if (const std::string* asked = find_header(answer->headers, "retry-after")) {
    if (const auto after = read_retry_after(*asked, sources_.clock->now()))
      time = std::max(time, *after);
  }
  return time;
}

std::string ClientCore::call(const ContractSpec& contract, std::string body,
                             const CallOptions& options) {
  if (options.attempts < 1) throw Error("VALIDATION_ERROR", "a call needs at least one attempt");
  const Outgoing request = outgoing(contract, std::move(body), options);
  const std::string key_header =
      contract.idempotency ? contract.idempotency->header : std::string(default_key_header);
  const bool may_repeat =
      is_safe(request.method) || find_header(request.headers, key_header) != nullptr;
  const auto until =
      sources_.monotonic_now() + base::bounded(options.deadline.value_or(options_.deadline));

  for (int attempt = 1;; ++attempt) {
    const auto left = until - sources_.monotonic_now();
    if (left.count() <= 0)
      throw Error("DEADLINE_EXCEEDED", "no time is left for the call of " + contract.name);
    auto outcome = transport_->exchange(
        request, std::min<std::chrono::nanoseconds>(left, base::bounded(options_.attempt_timeout)),
        may_repeat);
    auto* answer = std::get_if<Response>(&outcome);
    if (answer != nullptr && answer->status >= 200 && answer->status < 300)
      return std::move(answer->body);

    const bool is_last = attempt == options.attempts || !may_repeat;
    if (!is_last && (answer == nullptr || is_worth_repeating(*answer))) {
      const auto time = pause(attempt, answer);
      if (sources_.monotonic_now() + time < until) {
        sources_.wait(time);
        continue;
      }
    }
    if (answer != nullptr) throw_problem(*answer);
    const bool is_late = sources_.monotonic_now() >= until;
    throw Error(is_late ? "DEADLINE_EXCEEDED" : "CONNECTION_FAILED",
                "no answer from the server of " + contract.name + ": " +
                    std::get<NoAnswer>(outcome).reason);
  }
}

std::string call(ClientCore& core, const ContractSpec& contract, std::string body,
                 const CallOptions& options) {
  return core.call(contract, std::move(body), options);
}

}  // namespace detail

Client::Client(const std::string& url, ClientOptions options)
    : core_(std::make_unique<detail::ClientCore>(url, std::move(options),
                                                 detail::system_sources())) {}

Client::Client(std::unique_ptr<detail::ClientCore> core) : core_(std::move(core)) {}

Client::Client(Client&&) noexcept = default;

Client& Client::operator=(Client&&) noexcept = default;

Client::~Client() = default;

}  // namespace semel::http
