#include "app/cli_server.hpp"

#include <semel/error.hpp>

#include <algorithm>
#include <charconv>

namespace semel::app {

std::pair<std::string, std::uint16_t> address_of(const std::string& option,
                                                 const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, wrong] =
      std::from_chars(text.data() + std::min(colon, text.size() - 1) + 1, end, port);
  if (host.empty() || wrong != std::errc{} || stopped != end) {
    throw Error(
        "VALIDATION_ERROR",
        option + " " + text + " is no address: write HOST:PORT, for example 127.0.0.1:8080");
  }
  return {host, port};
}

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
}

StopSignals::~StopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void StopSignals::wait() const {
  int signal = 0;
  while (sigwait(&signals_, &signal) != 0) {
  }
}

}  // namespace semel::app
