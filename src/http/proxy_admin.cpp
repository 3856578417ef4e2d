#include "http/proxy_admin.hpp"

#include "http/problem.hpp"
#include "idempotency/kernel.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

namespace semel::http {

namespace {

struct Metric {
  std::string_view name;
  std::string_view help;
  std::uint64_t idempotency::KernelCounters::* value;
};

using Counters = idempotency::KernelCounters;

constexpr auto metrics = std::to_array<Metric>(
    {{"replays", "Requests answered with a stored answer.", &Counters::hits},
     {"cached_replays", "Replays answered from memory.", &Counters::cache_hits},
     {"executions", "Keys acquired that nobody held before.", &Counters::misses},
     {"takeovers", "Keys taken over from an owner whose lease ended.", &Counters::takeovers},
     {"waits", "Duplicates that waited for the first.", &Counters::waits},
     {"in_progress", "Duplicates told that the first is at work.", &Counters::in_progress},
     {"conflicts", "Keys used again for another request.", &Counters::conflicts},
     {"unknown", "Requests told that an earlier outcome is unknown.", &Counters::unknown},
     {"fences_lost", "Outcomes that came after the lease had gone to another.",
      &Counters::fences_lost}});

/// The Prometheus text format.
std::string text_of(const Counters& counters) {
  std::string text;
  for (const Metric& metric : metrics) {
    const std::string name = fmt::format("semel_idempotency_{}_total", metric.name);
    text += fmt::format("# HELP {} {}\n# TYPE {} counter\n{} {}\n", name, metric.help, name, name,
                        counters.*metric.value);
  }
  return text;
}

Response plain(std::string text) {
  return {200, {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}}, std::move(text)};
}

class ProxyAdmin final : public Handler {
 public:
  explicit ProxyAdmin(IdempotencyStore& store) : store_(store) {}

  void handle(const Request& request, Responder responder) override {
    const bool is_known =
        request.path == "/healthz" || request.path == "/readyz" || request.path == "/metrics";
    if (!is_known) {
      responder.answer(problem("ROUTE_NOT_FOUND", "there are /healthz, /readyz and /metrics"));
    } else if (request.method != "GET" && request.method != "HEAD") {
      Response refusal = problem("METHOD_NOT_ALLOWED", "this can only be read");
      refusal.headers.push_back({"allow", "GET, HEAD"});
      responder.answer(std::move(refusal));
    } else if (request.path == "/healthz") {
      responder.answer(plain("ok\n"));
    } else if (request.path == "/metrics") {
      responder.answer(plain(text_of(store_.kernel().counters())));
    } else {
      look_at_store(std::move(responder));
    }
  }

 private:
  /// A look at a key that nobody uses: whether there is an answer is all that counts.
  void look_at_store(Responder responder) {
    const auto kept = std::make_shared<Responder>(std::move(responder));
    store_.kernel().execute(
        store::FindReservation{.id = {.workspace = store_.workspace(), .ns = "readyz"}},
        [kept](const base::Result<store::Answer>& answer) {
          kept->answer(answer ? plain("ready\n")
                              : problem("STORE_UNAVAILABLE", "the store is not available"));
        });
  }

  IdempotencyStore& store_;
};

}  // namespace

std::unique_ptr<Handler> make_proxy_admin(IdempotencyStore& store) {
  return std::make_unique<ProxyAdmin>(store);
}

}  // namespace semel::http
