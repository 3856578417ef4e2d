// What becomes of a key that was claimed in memory: handlers that are dropped, that fail while others wait, whose store fails.
#include "base/clock.hpp"
#include "http/kernel_layer.hpp"
#include "idempotency/kernel.hpp"
#include "idempotency/memory_store.hpp"
#include "idempotency/policy.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>

namespace semel::http {

namespace {

using namespace std::chrono_literals;

/// Work whose handler is done when the test says so.
struct Gated final : KeyedWork {
  void run(Begin, Done handled) override {
    if (keeps) done = std::move(handled);
    ++begun;
  }

  void answer(Response told) override { answered.set_value(std::move(told)); }

  bool post(std::function<void()>) override { return false; }

  int status() { return answered.get_future().get().status; }

  /// What it holds holds this.
  void finish(int status) {
    std::exchange(done, nullptr)({.status = status, .headers = {}, .body = {}});
  }

  bool keeps = true;  ///< or drops the handler
  Done done;
  std::atomic<int> begun = 0;
  std::promise<Response> answered;
};

/// What a request under a key is handled as, past the sockets.
struct Endpoint {
  explicit Endpoint(IdempotencyStore& store)
      : layer(make_kernel_layer(store, idempotency::Policy{})) {}

  void handle(const std::shared_ptr<Gated>& work, const std::string& key = "k") const {
    Request request;
    request.method = "POST";
    request.path = "/";
    request.headers = {{"Idempotency-Key", key}};
    layer->handle({request, contract, call, {}}, work);
  }

  const detail::ContractSpec contract{.method = "POST", .path = "/", .idempotency = Idempotent{}};
  const Call call;
  const std::shared_ptr<IdempotencyLayer> layer;
};

/// A store in memory, where keys can be claimed, that fails when the test says so.
class FailingPort final : public idempotency::Port {
 public:
  FailingPort() { claims_.begin_anew({}, store::KeyClaims::Fill::empty); }

  void execute(store::Command command, Reply reply) override { reply(call(std::move(command))); }

  base::Result<store::Answer> call(store::Command command) override {
    if (fails) {
      ++failures;
      return base::Fault{base::Errc::unavailable, "the disk"};
    }
    auto answer = inner_->call(std::move(command));
    ++executed;
    return answer;
  }

  void go_on(std::function<void()> action) override { action(); }

  TimePoint now() const override { return inner_->now(); }

  store::KeyClaims* claims() override { return &claims_; }

  std::atomic<bool> fails = false;
  std::atomic<int> failures = 0;
  std::atomic<int> executed = 0;

 private:
  std::shared_ptr<idempotency::Port> inner_ =
      idempotency::make_memory_port(std::make_shared<base::SystemClock>());
  store::KeyClaims claims_;
};

class FailingStore final : public IdempotencyStore {
 public:
  idempotency::Kernel& kernel() override { return *kernel_; }

  const std::string& workspace() const override { return workspace_; }

  const std::shared_ptr<FailingPort> port = std::make_shared<FailingPort>();

 private:
  const std::shared_ptr<idempotency::Kernel> kernel_ = idempotency::Kernel::make(port);
  const std::string workspace_ = "default";
};

}  // namespace

TEST_CASE("a handler that was dropped leaves its key to the next") {
  FailingStore store;
  const Endpoint endpoint{store};
  // One that is held up for a millisecond is reserved in the store: then its lease has to end.
  for (int i = 0;; ++i) {
    const auto work = std::make_shared<Gated>();
    work->keeps = false;
    const std::string key = std::to_string(i);
    const int executed = store.port->executed;
    endpoint.handle(work, key);
    endpoint.handle(work, key);
    if (store.port->executed != executed) continue;

    CHECK(work->begun == 2);
    break;
  }
}

TEST_CASE("a handler fails while others wait for it: one of them takes over") {
  Engine engine{"memory:"};
  const Endpoint endpoint{engine.idempotency()};
  const auto first = std::make_shared<Gated>();
  const auto second = std::make_shared<Gated>();
  endpoint.handle(first);
  endpoint.handle(second);
  while (engine.idempotency().kernel().counters().waits == 0) std::this_thread::yield();

  first->finish(503);
  CHECK(first->status() == 503);
  while (second->begun == 0) std::this_thread::yield();
  second->finish(200);

  CHECK(second->status() == 200);
}

TEST_CASE("a claim that others met is given back to the store when nothing comes of it") {
  Engine engine{"memory:"};
  idempotency::Kernel& kernel = engine.idempotency().kernel();
  store::Reserve ask{.id = {.ns = "n", .scope = {}, .key = "k"}, .fingerprint = "f"};
  std::promise<idempotency::Found> second;
  REQUIRE(kernel.claim(ask) == store::KeyClaims::Claimed::yes);
  kernel.reserve(ask, {.wait = 1h}, [&](const base::Result<idempotency::Found>& found) {
    second.set_value(found.value());
  });
  while (kernel.counters().waits == 0) std::this_thread::yield();

  std::promise<void> given_up;
  kernel.give_up(ask, [&] { given_up.set_value(); });
  given_up.get_future().wait();

  CHECK(std::holds_alternative<store::Acquired>(second.get_future().get()));
}

TEST_CASE("what comes of a claim whose key was forgotten by force is not stored") {
  Engine engine{"memory:"};
  idempotency::Kernel& kernel = engine.idempotency().kernel();
  store::Reserve ask{.id = {.ns = "n", .scope = {}, .key = "k"}, .fingerprint = "f"};
  REQUIRE(kernel.claim(ask) == store::KeyClaims::Claimed::yes);
  REQUIRE(std::holds_alternative<store::InProgress>(*kernel.reserve(ask)));

  const auto forgotten = kernel.call(store::Forget{.id = ask.id, .force = true});
  store::Reserve done = ask;
  done.is_claimed = true;
  done.outcome = store::Reserve::Outcome{.answer = "late"};
  const auto late = kernel.call(done);
  const auto next = kernel.reserve(ask);

  CHECK(std::holds_alternative<store::Done>(*forgotten));
  CHECK(std::holds_alternative<store::FenceLost>(*late));
  CHECK(std::holds_alternative<store::Acquired>(*next));
}

TEST_CASE("the store fails for a while and the handler goes on: its answer is stored") {
  FailingStore store;
  const Endpoint endpoint{store};
  const auto first = std::make_shared<Gated>();
  const auto again = std::make_shared<Gated>();
  store.port->fails = true;
  endpoint.handle(first);
  while (store.port->failures == 0) std::this_thread::yield();
  store.port->fails = false;
  while (store.port->executed == 0) std::this_thread::yield();

  first->finish(201);
  const int told = first->status();
  endpoint.handle(again);

  CHECK(told == 201);
  CHECK(again->status() == 201);
  CHECK(first->begun == 1);
  CHECK(again->begun == 0);
}

}  // namespace semel::http
