// Server-sent events: read as they come, also over a connection that breaks.
#pragma once

#include "http/client_transport.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace semel::app {

struct Event {
  std::string id{};
  std::string kind = "message";
  std::string data{};
};

/// Takes events out of bytes, wherever those are cut.
class EventReader {
 public:
  void feed(std::string_view bytes, const std::function<void(const Event&)>& each);

 private:
  void take_line(std::string_view line, const std::function<void(const Event&)>& each);

  std::string line_;
  Event event_;
  bool has_data_ = false;
};

/// Reads the events at `request` until `each` says that it was the last. A connection that ends before that is opened again,
/// behind the last event that had an id; `wait` is called in between. Throws Error: what the server answers instead, or
/// CONNECTION_FAILED after ten attempts without an event.
void follow_events(http::ClientTransport& transport, http::Outgoing request,
                   const std::function<bool(const Event&)>& each,
                   const std::function<void(std::chrono::nanoseconds)>& wait);

}  // namespace semel::app
