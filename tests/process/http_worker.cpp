// The server that is killed.
//
//   http_worker DIRECTORY PORT STORE     serves until it is killed
//
// POST /layer is made idempotent by the server: each execution is written down in the ledger before it is answered. POST
// /slow as well, but the first process to execute it never ends it. POST /unit does it itself, in the transaction of its
// own rows.
#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>

namespace semel::process {
namespace {

using namespace std::chrono_literals;

struct Payment {
  std::int64_t cents = 0;
};
BOOST_DESCRIBE_STRUCT(Payment, (), (cents))

struct Receipt {
  std::string number;
  std::int64_t cents = 0;
};
BOOST_DESCRIBE_STRUCT(Receipt, (), (number, cents))

const auto by_layer =
    http::post<Payment, Receipt>("/layer").idempotent({.required = true, .ttl = 24h, .lease = 1s});
const auto by_layer_slowly =
    http::post<Payment, Receipt>("/slow").idempotent({.required = true, .ttl = 24h, .lease = 1s});
const auto by_unit = http::post<Payment, Receipt>("/unit");

[[noreturn]] void wait_for_ever() {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable never;
  for (;;) never.wait(lock);
}

void serve(const std::filesystem::path& directory, std::uint16_t port, const std::string& store) {
  Ledger ledger(directory / "ledger");
  Engine engine{store};
  engine.transaction([](sql::Transaction& tx) {
    tx.exec("CREATE TABLE IF NOT EXISTS payment (number BIGINT PRIMARY KEY, key TEXT)");
  });
  http::Server server{engine, {.port = port}};
  server.handle(by_layer, [&](const Payment& payment, http::Call& call) {
    const std::string key = call.headers.at("idempotency-key");
    ledger.append("run " + key + " " + std::to_string(getpid()));
    call.status = 201;
    return Receipt{key + "-" + std::to_string(getpid()), payment.cents};
  });
  server.handle(by_layer_slowly, [&](const Payment& payment, http::Call& call) {
    const bool is_first = ledger.lines().empty();
    ledger.append("run " + call.headers.at("idempotency-key"));
    if (is_first) wait_for_ever();
    call.status = 201;
    return Receipt{"slow", payment.cents};
  });
  server.handle(by_unit, [&](const Payment& payment, http::Call& call) {
    const std::string key = call.headers.at("idempotency-key");
    call.status = 201;
    return engine.transaction([&](sql::Transaction& tx) {
      return run_idempotently(tx.idempotency(), {.ns = "unit", .key = key}, [&] {
        const auto number = tx.query<std::int64_t>(
            "INSERT INTO payment (number, key) SELECT 1 + "
            "coalesce(max(number), 0), ?1 FROM payment RETURNING number",
            key);
        return Receipt{std::to_string(number.front()), payment.cents};
      });
    });
  });
  server.start();
  say_ready();
  wait_for_ever();
}

}  // namespace
}  // namespace semel::process

int main(int count, char** arguments) {
  if (count != 4) return 2;
  try {
    semel::process::serve(arguments[1], static_cast<std::uint16_t>(std::stoi(arguments[2])),
                          arguments[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "http_worker: %s\n", error.what());
  }
  return 1;
}
