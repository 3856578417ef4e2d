// A server behind its contracts: routes, who may, what fits, and who runs the handler.
#pragma once

#include "base/clock.hpp"
#include "engine/thread_pool.hpp"
#include "http/idempotency_layer.hpp"
#include "http/listener.hpp"
#include "http/router.hpp"

#include <semel/http.hpp>

#include <memory>
#include <mutex>
#include <vector>

namespace semel::http::detail {

/// A handler for what no contract can say: any body, any answer, streams. Runs on the connection's thread. `request`
/// stays until it is answered.
using RawHandler = std::function<void(const Request& request, Call call, Responder responder)>;

/// The same with the body that a contract's `decode` made; empty where the contract has none.
using WholeHandler = std::function<void(const Request& request, Call call,
                                        std::shared_ptr<const void> body, Responder responder)>;

/// What a handler threw, as an answer. Nothing of it is shown where it is not one of ours.
Response answer_to(const std::exception_ptr& thrown);

/// Whether the answer hides what was thrown.
bool is_unexpected(const Response& answer);

/// The threads of blocking handlers. Requests hold it, and may come to it when the server is gone.
class HandlerThreads {
 public:
  explicit HandlerThreads(unsigned threads_max)
      : pool_(std::make_unique<engine::ThreadPool>(threads_max)) {}

  /// Drops the work where the threads are gone.
  void submit(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (pool_) pool_->submit(std::move(work));
  }

  /// Waits for what has begun.
  void close() {
    std::unique_ptr<engine::ThreadPool> pool;
    const std::lock_guard lock(mutex_);
    pool = std::move(pool_);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<engine::ThreadPool> pool_;
};

class ServerCore final : public Handler {
 public:
  explicit ServerCore(ServerOptions options);
  ServerCore(const ServerCore&) = delete;
  ServerCore& operator=(const ServerCore&) = delete;
  ~ServerCore() override;

  void add(Endpoint endpoint);

  /// `is_open`: nobody is asked who they are.
  void add_raw(std::string method, std::string path, std::string name, bool is_open,
               RawHandler handler);

  /// An endpoint whose handler gives whole answers and sees to keys by itself. Described at /openapi.json as others are.
  void add_whole(Endpoint endpoint, bool is_open, WholeHandler handler);

  /// Has what `guard`, `authenticate` and `authorise` go by brought up to date, for every request to a route that is not open,
  /// before they are asked. `then` may be called on any thread; an answer turns the request away. Must not block.
  using Prepare = std::function<void(std::function<void(std::optional<Response>)> then)>;

  void prepare(Prepare prepare) { prepare_ = std::move(prepare); }

  /// Asked of every request, before anything else; an answer turns it away. Must not block.
  void guard(std::function<std::optional<Response>(const Request&)> guard) {
    guard_ = std::move(guard);
  }

  /// Asked of every request whose caller may, by the route's name; an answer turns it away. Must not block.
  void limit(std::function<std::optional<Response>(const Call&, std::string_view)> limit) {
    limit_ = std::move(limit);
  }

  /// Called when the server begins to stop: whoever keeps requests waiting answers them.
  void before_stop(std::function<void()> dismiss) { before_stop_ = std::move(dismiss); }

  /// Lives as long as this does.
  void attach(std::shared_ptr<void> part) { attached_ = std::move(part); }

  /// Has `work` done by a thread that may block.
  void submit(std::function<void()> work) { handlers_->submit(std::move(work)); }

  /// Who remembers keys; before `start`.
  void use(std::shared_ptr<IdempotencyLayer> layer) { layer_ = std::move(layer); }

  const ServerOptions& options() const { return options_; }

  void start();
  void stop();

  std::uint16_t port() const { return listener_ ? listener_->port() : 0; }

  std::vector<ContractSpec> contracts() const;

  /// One per route, and one without a route for what belongs to none; once it has started.
  std::vector<std::shared_ptr<const RequestMeter>> meters() const;

  std::size_t connections() const { return listener_ ? listener_->connections() : 0; }

  Admission admit(const Request& request, const ListenerLimits& limits) override;
  void handle(const Request& request, Responder responder) override;

  void on_refused(int status) override { unrouted_->count(status); }

 private:
  struct Route;
  struct Exchange;

  std::shared_ptr<const Route> find(const Request& request, Call& call,
                                    std::optional<Response>& refusal) const;
  std::optional<Response> refuse_caller(const Route& route, const Request& request,
                                        Call& call) const;
  /// Nothing is done for a request that has a refusal.
  void go_on(const std::shared_ptr<Exchange>& exchange, std::optional<Response> refusal);
  static std::optional<Response> parse(Exchange& exchange);
  void add_route(Route route);

  std::shared_ptr<void> attached_;
  const ServerOptions options_;
  const base::SystemClock clock_;
  Router router_;
  std::vector<std::shared_ptr<const Route>> routes_;
  const std::shared_ptr<RequestMeter> unrouted_ = std::make_shared<RequestMeter>("", "");
  std::shared_ptr<IdempotencyLayer> layer_;
  Prepare prepare_;
  std::function<std::optional<Response>(const Request&)> guard_;
  std::function<std::optional<Response>(const Call&, std::string_view)> limit_;
  std::function<void()> before_stop_;
  std::shared_ptr<HandlerThreads> handlers_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace semel::http::detail
