// Ten thousand clients wait for one result: no thread is theirs, the server answers others meanwhile, and all hear it.
#include "http/raw_client.hpp"
#include "tests/process/process.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <memory>
#include <vector>

namespace semel::process {
namespace {

using namespace std::chrono_literals;
using http::testing::RawAnswer;
using http::testing::RawClient;

constexpr int clients = 10'000;
constexpr auto patience = 50s;

/// Sockets here, and in the server, which inherits it.
void allow_so_many_files() {
  rlimit files{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  REQUIRE_MESSAGE(files.rlim_max > clients + 200, "ulimit -Hn is too low for this test");
  files.rlim_cur = files.rlim_max;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
}

RawAnswer ask(std::uint16_t port, const std::string& path, const std::string& body = {}) {
  const std::string head =
      body.empty() ? fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
                   : fmt::format(
                         "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         "Content-Length: {}\r\n\r\n",
                         path, body.size());
  auto answer = RawClient(port).send(head + body).receive();
  REQUIRE(answer.has_value());
  return *std::move(answer);
}

int threads_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return -1;
}

TEST_CASE("ten thousand clients wait for a result, and no thread waits with them") {
  allow_so_many_files();
  const TemporaryDirectory directory;
  const std::uint16_t port = port_to_return_to();
  Child server({SEMEL_SERVE_WORKER, directory.path().string(), std::to_string(port),
                "sqlite:" + (directory.path() / "store.db").string()},
               directory.path() / "log");
  REQUIRE_MESSAGE(server.is_ready_within(patience), text_of(directory.path() / "log"));
  REQUIRE(ask(port, "/api/v1/runs",
              R"({"workflow":"process-order","input":"7","runId":"seven","token":"order:7"})")
              .status == 201);

  std::vector<std::unique_ptr<RawClient>> waiting;
  waiting.reserve(clients);
  for (int i = 0; i < clients; ++i) {
    waiting.push_back(std::make_unique<RawClient>(port));
    waiting.back()->send(
        "GET /api/v1/runs/seven/result?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  const std::string all = fmt::format("\nsemel_waiting_clients {}\n", clients);
  REQUIRE(comes_true([&] { return ask(port, "/metrics").body.find(all) != std::string::npos; },
                     patience));

  CHECK(threads_of(server.id()) < 100);
  CHECK(ask(port, "/healthz").status == 200);
  CHECK(ask(port, "/api/v1/hooks/order:7/resume", R"({"granted":true})").status == 200);

  int told = 0;
  for (const auto& client : waiting) {
    const auto answer = client->receive();
    REQUIRE(answer.has_value());
    told += answer->status == 200 && answer->body.find(R"("charged")") != std::string::npos ? 1 : 0;
  }
  CHECK(told == clients);
}

}  // namespace
}  // namespace semel::process
