// The façade: opens a store by its URL and hands the parts to each other. The only place that names a concrete store.
#include "app/default_log.hpp"
#include "app/engine_core.hpp"
#include "engine/inline_driver.hpp"
#include "engine/threaded_driver.hpp"
#include "engine/transacting.hpp"
#include "store/postgres/postgres_hints.hpp"
#include "store/postgres/postgres_key_reader.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/sqlite/sqlite_store.hpp"

#include <semel/engine.hpp>
#include <semel/testing.hpp>

#include <unistd.h>

#include <array>

namespace semel {

namespace {

using Claims = std::shared_ptr<store::KeyClaims>;

template <class Store>
base::Result<engine::OpenedStore> with_reader(base::Result<std::unique_ptr<Store>> opened,
                                              Claims claims = nullptr) {
  if (!opened) return opened.error();
  auto reader = (*opened)->reader();
  if (!reader) return reader.error();
  return engine::OpenedStore{std::move(*opened), std::move(*reader), std::move(claims)};
}

/// In memory the database outlives the store, so that a crash in a test loses what a crash loses.
engine::StoreFactory memory_stores() {
  return [database = store::make_memory_database(), claims = std::make_shared<store::KeyClaims>()] {
    return with_reader(store::SqliteStore::open(database, claims), claims);
  };
}

bool is_postgres(const std::string& url) {
  return url.starts_with("postgres://") || url.starts_with("postgresql://");
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

using Identity = std::shared_ptr<store::postgres::NodeIdentity>;

/// Who this process is on a store that is shared.
Identity identity_of(const EngineOptions& options, std::chrono::nanoseconds lease) {
  if (lease < std::chrono::milliseconds{100})
    throw Error("VALIDATION_ERROR", "a lease takes at least 100 ms");
  auto identity = std::make_shared<store::postgres::NodeIdentity>();
  identity->name = options.node.empty() ? host_name() : options.node;
  identity->lease = lease;
  return identity;
}

engine::StoreFactory stores_of(const std::string& url, const Identity& identity) {
  if (url == "memory:") return memory_stores();
  const std::string sqlite = "sqlite:";
  if (url.starts_with(sqlite) && url.size() > sqlite.size()) {
    return [options = store::SqliteOptions{.path = url.substr(sqlite.size()),
                                           .claims = std::make_shared<store::KeyClaims>()}] {
      return with_reader(store::SqliteStore::open(options), options.claims);
    };
  }
  if (is_postgres(url)) {
    return [options = store::PostgresOptions{.url = url, .identity = identity}] {
      return with_reader(store::PostgresStore::open(options));
    };
  }
  throw Error("VALIDATION_ERROR",
              "cannot open \"" + url.substr(0, url.find(':') + 1) +
                  "…\": a store is sqlite:FILE, postgres://HOST/DATABASE or memory:");
}

engine::LoopOptions loop_options(const EngineOptions& options) {
  engine::LoopOptions loop;
  loop.limits = options.limits;
  loop.frame_bytes_max = options.frame_bytes_max;
  loop.retention = base::bounded(options.retention);
  loop.crashes_max = options.crashes_max;
  return loop;
}

std::unique_ptr<detail::EngineCore> threaded_core(const std::string& url,
                                                  const EngineOptions& options) {
  const Identity identity = identity_of(options, base::bounded(options.lease));
  auto core = std::make_unique<detail::EngineCore>(
      options,
      [&](const engine::Registry& registry, engine::StepClientFactory clients) {
        engine::ThreadedDriverOptions driver;
        driver.loop = loop_options(options);
        driver.step_threads = options.step_threads;
        driver.loop.log_level = options.log_level;
        driver.log = app::log_of(options);
        auto opened = engine::ThreadedDriver::open(registry, stores_of(url, identity),
                                                   std::move(clients), std::move(driver));
        if (!opened) throw Error("STORE_UNAVAILABLE", opened.error().message);
        return std::unique_ptr<engine::Driver>(std::move(*opened));
      },
      detail::Surroundings{
          .has_timers = true, .is_shared = is_postgres(url), .node = identity->name});
  if (is_postgres(url)) {
    core->allow_adoption(store::postgres::make_hints(url, identity), true);
    core->share_keys([url] { return store::postgres::make_key_reader(url); });
  }
  return core;
}

std::unique_ptr<detail::EngineCore> inline_core(const std::string& url,
                                                const EngineOptions& options) {
  // Nor does a lease end while it does.
  const Identity identity = identity_of(options, std::chrono::hours{24 * 365 * 50});
  auto core = std::make_unique<detail::EngineCore>(
      options,
      [&](const engine::Registry& registry, engine::StepClientFactory clients) {
        engine::LoopOptions loop = loop_options(options);
        loop.check_replay = true;
        loop.sweep_every =
            std::chrono::hours{1};  // thirty days of virtual time are over in no time
        return std::make_unique<engine::InlineDriver>(registry, stores_of(url, identity),
                                                      std::move(clients), loop);
      },
      detail::Surroundings{
          .has_timers = false, .is_shared = is_postgres(url), .node = identity->name});
  if (is_postgres(url)) {
    core->allow_adoption(store::postgres::make_hints(url, identity), false);
    core->share_keys([url] { return store::postgres::make_key_reader(url); });
  }
  return core;
}

engine::InlineDriver& inline_driver(detail::EngineCore& core) {
  return static_cast<engine::InlineDriver&>(core.driver());
}

}  // namespace

Started Client::started(detail::StartSpec spec) {
  auto [id, created] = port_->start(std::move(spec));
  return Started{Run{port_, std::move(id)}, created};
}

Started Client::started_in(sql::Transaction& transaction, detail::StartSpec spec) {
  auto [id, created] = port_->start_in(transaction, std::move(spec));
  return Started{Run{port_, std::move(id)}, created};
}

ResumedOrStarted Client::resumed_or_started(const std::string& token, std::string payload,
                                            detail::StartSpec spec) {
  auto [id, started] = port_->resume_or_start(token, std::move(payload), std::move(spec), {});
  return ResumedOrStarted{Run{port_, std::move(id)}, started};
}

Started Client::start(StartOptions options, std::string_view workflow, const Json& input) {
  const Json arguments = input.is_array() ? input : Json(boost::json::array{input});
  return started({std::move(options), std::string(workflow), "", value::to_text(arguments), false});
}

Run Client::run(const std::string& id) {
  static_cast<void>(port_->look(id));
  return Run{port_, id};
}

std::vector<Run> Client::runs(const RunFilter& filter) {
  std::vector<Run> runs;
  for (std::string& id : port_->list(filter)) runs.emplace_back(port_, std::move(id));
  return runs;
}

Engine::Engine(const std::string& url, EngineOptions options)
    : Engine(threaded_core(url, options)) {}

Engine::Engine(std::unique_ptr<detail::EngineCore> core) : core_(std::move(core)) {
  connect(core_->port("default"));
}

Engine::~Engine() = default;

void Engine::add_type(detail::WorkflowType type, const AddOptions& options) {
  if (options.token_payload) type.token_payload = options.token_payload->shape;
  core_->add(std::move(type));
}

void Engine::start_workers() { core_->driver().start_workers(); }

void Engine::stop() { core_->driver().stop(); }

sql::AdoptedTransaction Engine::adopt(pg_conn* connection) {
  app::refuse_inside_workflow();
  if (core_->adoption() == nullptr)
    throw Error("VALIDATION_ERROR", "only an engine on PostgreSQL can adopt a connection");
  return sql::AdoptedTransaction{
      engine::make_session(core_->adoption()->adopt(connection), "default")};
}

IdempotencyStore& Engine::idempotency() { return core_->idempotency(); }

Client& Engine::workspace(const std::string& name) { return core_->client(name); }

namespace testing {

Engine::Engine(EngineOptions options) : Engine("memory:", options) {}

Engine::Engine(const std::string& url, EngineOptions options)
    : semel::Engine(inline_core(url, options)) {}

void Engine::run_until_idle() {
  if (core().adoption() != nullptr) core().adoption()->look();
  inline_driver(core()).run_until_idle();
}

void Engine::advance_by(std::chrono::nanoseconds duration) {
  if (core().adoption() != nullptr) core().adoption()->look();
  inline_driver(core()).advance(duration);
}

void Engine::crash() {
  inline_driver(core()).crash();
  core().idempotency().kernel().forget_memory();
}

TimePoint Engine::now() const { return inline_driver(const_cast<Engine*>(this)->core()).now(); }

}  // namespace testing

}  // namespace semel
