// What commands that serve have in common: where they listen and when they stop.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <utility>

namespace semel::app {

/// Host and port of "127.0.0.1:8080" or "[::1]:8080". Throws Error, VALIDATION_ERROR, that names the option.
std::pair<std::string, std::uint16_t> address_of(const std::string& option,
                                                 const std::string& text);

/// Threads made while this is there do not get the signals that ask to stop (SIGTERM, SIGINT); `wait` does.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  void wait() const;

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

}  // namespace semel::app
