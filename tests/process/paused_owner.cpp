// The owner of a reservation that is stopped beyond its lease.
//
//   paused_owner PORT KEY LEDGER     reserves, renews, stops itself; continued, tries everything an owner may do
#include "tests/process/kernel_client.hpp"
#include "tests/process/process.hpp"

#include <csignal>
#include <cstdio>

namespace semel::process {
namespace {

int own(std::uint16_t port, const std::string& key, const std::string& ledger_file) {
  Ledger ledger(ledger_file);
  const Reserved mine = reserve(port, key);
  if (mine.outcome != "acquired") return 1;
  ledger.append(
      "renewed " +
      std::to_string(
          kernel_call(port, "renew", key, {{"fence", mine.fence}, {"lease", "1s"}}).status));
  std::raise(SIGSTOP);

  for (const char* what : {"renew", "complete", "release"}) {
    boost::json::object body{{"fence", mine.fence}};
    if (std::string_view(what) == "complete") body["response"] = "from the one that slept";
    const auto answer = kernel_call(port, what, key, std::move(body));
    ledger.append(std::string(what) + " " + std::to_string(answer.status) + " " + answer.code());
  }
  return 0;
}

}  // namespace
}  // namespace semel::process

int main(int count, char** arguments) {
  if (count != 4) return 2;
  try {
    return semel::process::own(static_cast<std::uint16_t>(std::stoi(arguments[1])), arguments[2],
                               arguments[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "paused_owner: %s\n", error.what());
    return 1;
  }
}
