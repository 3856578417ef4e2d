// A server for tools/bench-http: the same work behind a route without keys and behind one with them.
//
//   http_bench_server STORE THREADS   prints its port and serves until standard input closes
#include <semel/semel.hpp>

#include <iostream>
#include <limits>

namespace http = semel::http;

namespace {

struct Order {
  std::string sku;
  std::int64_t count = 0;
};
BOOST_DESCRIBE_STRUCT(Order, (), (sku, count))

struct Receipt {
  std::string order;
  std::int64_t total = 0;
};
BOOST_DESCRIBE_STRUCT(Receipt, (), (order, total))

struct Fine {
  bool ok = true;
};
BOOST_DESCRIBE_STRUCT(Fine, (), (ok))

semel::Task<Receipt> sell(const Order& order, http::Call& call) {
  call.status = 201;
  co_return Receipt{order.sku, order.count * 7};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: http_bench_server STORE THREADS\n";
    return 2;
  }
  try {
    semel::Engine engine{argv[1]};
    http::Server server{engine, {.threads = static_cast<unsigned>(std::stoul(argv[2]))}};
    server.handle(
        http::get<Fine>("/fine"),
        [](const std::monostate&, http::Call&) -> semel::Task<Fine> { co_return Fine{}; });
    server.handle(http::post<Order, Receipt>("/plain"), sell);
    server.handle(http::post<Order, Receipt>("/keyed").idempotent({.required = true}), sell);
    server.start();
    std::cout << server.port() << std::endl;
    std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  } catch (const std::exception& error) {
    std::cerr << "http_bench_server: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
