// The Prometheus text format, and what of the server, the engine and the kernel is told in it.
#pragma once

#include "engine/driver.hpp"
#include "http/server_core.hpp"
#include "idempotency/kernel.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace semel::serve {

class MetricsText {
 public:
  enum class Kind : std::uint8_t { counter, gauge, histogram };

  /// Begins a metric; its samples follow. The name is without "semel_".
  void begin(std::string_view name, Kind kind, std::string_view help);

  /// `labels` as in the format, `a="b",c="d"`; values of labels have to be ours: they are not escaped.
  void sample(std::string_view labels, std::uint64_t value);

  /// `scale`: how many of its units make one of the metric's.
  void sample(std::string_view labels, const base::Histogram& histogram, double scale);

  void counter(std::string_view name, std::string_view help, std::uint64_t value);
  void gauge(std::string_view name, std::string_view help, std::uint64_t value);

  std::string take() { return std::move(text_); }

 private:
  void line(std::string_view suffix, std::string_view labels, std::string_view value);

  std::string text_;
  std::string name_;
};

/// Called by the loop.
void tell_loop(MetricsText& text, const engine::Loop& loop);

void tell_driver(MetricsText& text, const engine::DriverMeter& meter);
void tell_kernel(MetricsText& text, const idempotency::KernelCounters& counters);
void tell_requests(MetricsText& text, const http::detail::ServerCore& core);

}  // namespace semel::serve
