// What is behind `run_idempotently`, and `fingerprint`.
#include "base/clock.hpp"
#include "idempotency/fingerprint.hpp"
#include "idempotency/kernel.hpp"
#include "idempotency/key_header.hpp"
#include "idempotency/owner.hpp"
#include "idempotency/scope.hpp"

#include <semel/idempotency.hpp>

#include <algorithm>
#include <utility>

namespace semel::detail {

using idempotency::FinishedAnswer;
using idempotency::Found;
using idempotency::Kernel;
using store::Answer;

namespace {

[[noreturn]] void throw_fault(const base::Fault& fault) {
  throw Error("STORE_UNAVAILABLE", fault.message);
}

store::Reserve ask_of(const IdempotencyStore& store, const IdempotencyOptions& options) {
  if (options.key.empty() || options.key.size() > idempotency::key_bytes_max)
    throw Error("IDEMPOTENCY_KEY_INVALID", "an idempotency key has 1 to 255 bytes");
  if (options.ttl <= Millis{0} || options.lease <= Millis{0})
    throw Error("VALIDATION_ERROR", "ttl and lease of a reservation must be positive");
  return {.id = {.workspace = store.workspace(),
                 .ns = options.ns,
                 .scope = idempotency::scope_text(options.scope),
                 .key = options.key},
          .fingerprint = options.fingerprint,
          .owner = options.owner.empty() ? idempotency::current_step() : options.owner,
          .lease = base::bounded(options.lease),
          .ttl = base::bounded(options.ttl)};
}

/// The fence, if the work is to be done here; otherwise the stored answer is in `answer`. Throws where there is neither.
std::optional<store::Fence> acquired(const IdempotencyOptions& options,
                                     const base::Result<Found>& found, std::string& answer) {
  if (!found) throw_fault(found.error());
  if (const auto* mine = std::get_if<store::Acquired>(&*found)) return mine->fence;
  if (std::holds_alternative<store::InProgress>(*found)) {
    throw IdempotencyInProgressError("IDEMPOTENCY_IN_PROGRESS",
                                     "the work under this idempotency key is under way");
  }
  if (std::holds_alternative<store::KeyReused>(*found)) {
    throw IdempotencyConflictError("IDEMPOTENCY_CONFLICT",
                                   "this idempotency key was used with another input");
  }
  if (std::holds_alternative<store::OutcomeUnknown>(*found)) {
    throw OutcomeUnknownError(
        "OUTCOME_UNKNOWN",
        "the work under this idempotency key was begun, and nobody knows what came of it");
  }
  if (options.replay == Replay::error) {
    throw IdempotencyConflictError("IDEMPOTENCY_CONFLICT",
                                   "the work under this idempotency key was done");
  }
  const auto& finished = std::get<FinishedAnswer>(*found);
  if (finished.state == store::ReservationState::not_retained) {
    throw Error("IDEMPOTENCY_RESPONSE_NOT_RETAINED",
                "the work under this idempotency key was done; its result was too large to keep");
  }
  answer = *finished.bytes;
  return std::nullopt;
}

store::Complete completion(const Kernel& kernel, const store::ReservationId& id, store::Fence fence,
                           const std::string& answer) {
  const bool fits = answer.size() <= kernel.options().answer_bytes_max;
  return {
      .id = id,
      .fence = fence,
      .state = fits ? store::ReservationState::completed : store::ReservationState::not_retained,
      .answer = fits ? answer : std::string{}};
}

void check_completed(const base::Result<Answer>& answer) {
  if (!answer) throw_fault(answer.error());
  if (std::holds_alternative<store::Done>(*answer)) return;
  throw Error("FENCE_LOST",
              "the lease on this idempotency key was lost while the work was done; whoever took it "
              "over decides the result");
}

/// Behind a failure that matters more: if this fails too, the lease ends by itself.
void release(Kernel& kernel, const store::ReservationId& id, store::Fence fence) {
  try {
    static_cast<void>(kernel.call(store::Release{.id = id, .fence = fence}));
  } catch (const Error&) {
    return;
  }
}

/// Suspends until the kernel has answered, and goes on where users' code may.
template <class T>
Callback<base::Result<T>> answer_of(Kernel& kernel,
                                    std::function<void(std::function<void(base::Result<T>)>)> ask) {
  return Callback<base::Result<T>>{
      [&kernel, ask = std::move(ask)](std::function<void(base::Result<T>)> go_on) {
        ask([&kernel, go_on = std::move(go_on)](base::Result<T> answer) {
          kernel.port().go_on(
              [go_on, answer = std::move(answer)]() mutable { go_on(std::move(answer)); });
        });
      }};
}

Callback<base::Result<Answer>> executed(Kernel& kernel, store::Command command) {
  return answer_of<Answer>(kernel, [&kernel, command = std::move(command)](auto reply) mutable {
    kernel.execute(std::move(command), std::move(reply));
  });
}

/// Past the end of a text in quotes that begins at `at`.
std::size_t string_end(std::string_view json, std::size_t at) {
  for (++at; json[at] != '"'; ++at) at += json[at] == '\\' ? 1 : 0;
  return at + 1;
}

/// Past the end of a value; `json` is canonical, so there are no spaces.
std::size_t value_end(std::string_view json, std::size_t at) {
  for (int depth = 0;; ++at) {
    const char c = json[at];
    if (depth == 0 && (c == ',' || c == '}')) return at;
    if (c == '"') {
      at = string_end(json, at) - 1;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

std::string without(std::string_view canonical, const std::vector<std::string>& omit) {
  std::vector<std::string> names;
  names.reserve(omit.size());
  for (const std::string& name : omit) names.push_back(value::encode(name));
  std::string kept = "{";
  for (std::size_t at = 1; canonical[at] != '}';) {
    const std::size_t colon = string_end(canonical, at);
    const std::size_t end = value_end(canonical, colon + 1);
    if (std::ranges::find(names, canonical.substr(at, colon - at)) == names.end()) {
      if (kept.size() > 1) kept += ',';
      kept += canonical.substr(at, end - at);
    }
    at = canonical[end] == ',' ? end + 1 : end;
  }
  return kept + "}";
}

}  // namespace

std::string run_once(IdempotencyStore& store, const IdempotencyOptions& options,
                     const Execute& execute) {
  Kernel& kernel = store.kernel();
  const store::Reserve ask = ask_of(store, options);
  std::string answer;
  const auto fence = acquired(options, kernel.reserve(ask), answer);
  if (!fence) return answer;
  {
    const auto lease = kernel.keep(ask.id, *fence, ask.lease);
    try {
      answer = execute();
    } catch (...) {
      release(kernel, ask.id, *fence);
      throw;
    }
  }
  check_completed(kernel.call(completion(kernel, ask.id, *fence, answer)));
  return answer;
}

Task<std::string> run_once_async(IdempotencyStore& store, IdempotencyOptions options,
                                 ExecuteTask execute) {
  Kernel& kernel = store.kernel();
  const store::Reserve ask = ask_of(store, options);
  const auto found = co_await answer_of<Found>(
      kernel, [&kernel, &ask](auto reply) { kernel.reserve(ask, {}, std::move(reply)); });
  std::string answer;
  const auto fence = acquired(options, found, answer);
  if (!fence) co_return answer;
  std::exception_ptr failure;
  {
    const auto lease = kernel.keep(ask.id, *fence, ask.lease);
    try {
      answer = co_await execute();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (failure) {
    static_cast<void>(co_await executed(kernel, store::Release{.id = ask.id, .fence = *fence}));
    std::rethrow_exception(failure);
  }
  check_completed(co_await executed(kernel, completion(kernel, ask.id, *fence, answer)));
  co_return answer;
}

std::string json_fingerprint(std::string_view json, const FingerprintOptions& options) {
  std::string canonical = value::canonical(json);
  if (!options.omit.empty() && canonical.starts_with('{'))
    canonical = without(canonical, options.omit);
  return idempotency::sha256_hex(idempotency::Fingerprint{}.add("value").add(canonical).digest());
}

}  // namespace semel::detail
