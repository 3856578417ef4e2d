// Rows of the program's own and the engine's, in one commit: an order and the run that fulfils it, a payment taken once
// however often it is sent, and a step that books the money and its own result together.
#include <semel/semel.hpp>

#include <iostream>

namespace sql = semel::sql;

namespace {

struct Balance {
  std::string account;
  std::int64_t cents = 0;
};
BOOST_DESCRIBE_STRUCT(Balance, (), (account, cents))

semel::Workflow<std::int64_t> fulfil(std::string order, std::int64_t cents) {
  // Exactly once: the rows and the step's result are one commit.
  co_return co_await semel::transaction("book", [order, cents](sql::Transaction& tx) {
    tx.exec("UPDATE account SET cents = cents - ?1 WHERE account = 'customer'", cents);
    tx.exec("UPDATE account SET cents = cents + ?1 WHERE account = 'shop'", cents);
    tx.exec("UPDATE orders SET status = 'paid' WHERE id = ?1", order);
    return tx.query<std::int64_t>("SELECT cents FROM account WHERE account = 'shop'").front();
  });
}

/// What a client sends, perhaps twice. The order, its run and the answer under the key are there together or not at all.
std::string place(semel::Engine& engine, const std::string& key, std::int64_t cents) {
  return engine.transaction([&](sql::Transaction& tx) {
    const semel::IdempotencyOptions once{
        .ns = "orders", .key = key, .fingerprint = semel::fingerprint(cents)};
    return semel::run_idempotently(tx.idempotency(), once, [&] {
      const auto id = tx.query<std::int64_t>(
          "INSERT INTO orders (status, cents) VALUES ('placed', ?1) RETURNING id", cents);
      std::string order = std::to_string(id.front());
      engine.start_in(tx, {.run_id = "order-" + order}, fulfil, order, cents);
      return order;
    });
  });
}

}  // namespace

int main() {
  semel::Engine engine{"sqlite:shop.db"};
  engine.add("fulfil", fulfil);
  engine.start_workers();
  engine.transaction([](sql::Transaction& tx) {
    tx.exec(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, cents INTEGER);"
        "CREATE TABLE account (account TEXT PRIMARY KEY, cents INTEGER);"
        "INSERT INTO account VALUES ('customer', 10000), ('shop', 0)");
  });

  const std::string order = place(engine, "key-1", 4990);
  const bool is_same = place(engine, "key-1", 4990) == order;
  const auto in_the_till = engine.run("order-" + order).result<std::int64_t>();

  const auto balances = engine.transaction([](sql::Transaction& tx) {
    return tx.query<Balance>("SELECT account, cents FROM account ORDER BY account");
  });
  for (const Balance& balance : balances)
    std::cout << balance.account << ": " << balance.cents << '\n';
  return is_same && in_the_till == 4990 && balances.front().cents == 5010 ? 0 : 1;
}
