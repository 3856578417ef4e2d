#include "serve/metrics.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace semel::serve {

namespace {

constexpr double nanoseconds_per_second = 1e9;

std::string_view word_of(MetricsText::Kind kind) {
  switch (kind) {
    case MetricsText::Kind::counter:
      return "counter";
    case MetricsText::Kind::gauge:
      return "gauge";
    default:
      return "histogram";
  }
}

std::string labels_of(const http::RequestMeter& meter) {
  return fmt::format(R"(method="{}",route="{}")", meter.method(), meter.route());
}

bool was_asked(const http::RequestMeter& meter) {
  for (std::size_t i = 0; i < http::RequestMeter::classes; ++i) {
    if (meter.answers(i) != 0) return true;
  }
  return false;
}

}  // namespace

void MetricsText::begin(std::string_view name, Kind kind, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP semel_{0} {1}\n# TYPE semel_{0} {2}\n", name, help, word_of(kind));
}

void MetricsText::line(std::string_view suffix, std::string_view labels, std::string_view value) {
  text_ += labels.empty() ? fmt::format("semel_{}{} {}\n", name_, suffix, value)
                          : fmt::format("semel_{}{}{{{}}} {}\n", name_, suffix, labels, value);
}

void MetricsText::sample(std::string_view labels, std::uint64_t value) {
  line("", labels, std::to_string(value));
}

void MetricsText::sample(std::string_view labels, const base::Histogram& histogram, double scale) {
  const std::string before = labels.empty() ? "" : std::string(labels) + ",";
  const auto bounds = histogram.bounds();
  std::uint64_t below = 0;
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    below += histogram.count(i);
    const std::string bound =
        i < bounds.size() ? fmt::format("{:g}", static_cast<double>(bounds[i]) / scale) : "+Inf";
    line("_bucket", fmt::format(R"({}le="{}")", before, bound), std::to_string(below));
  }
  line("_sum", labels, fmt::format("{}", static_cast<double>(histogram.sum()) / scale));
  // What was just added up: counted anew it might be more, and the two have to agree.
  line("_count", labels, std::to_string(below));
}

void MetricsText::counter(std::string_view name, std::string_view help, std::uint64_t value) {
  begin(name, Kind::counter, help);
  sample("", value);
}

void MetricsText::gauge(std::string_view name, std::string_view help, std::uint64_t value) {
  begin(name, Kind::gauge, help);
  sample("", value);
}

void tell_loop(MetricsText& text, const engine::Loop& loop) {
  const engine::LoopCounters& counters = loop.counters();
  text.begin("runs_ended_total", MetricsText::Kind::counter,
             "Runs that came to their end here; a repeated cancel counts again");
  text.sample(R"(status="completed")", counters.runs_completed);
  text.sample(R"(status="failed")", counters.runs_failed);
  text.sample(R"(status="cancelled")", counters.runs_cancelled);
  text.begin("step_attempts_total", MetricsText::Kind::counter, "Attempts of steps that are over");
  text.sample(R"(outcome="done")", counters.steps_done);
  text.sample(R"(outcome="failed")", counters.steps_failed);
  text.counter("batches_total", "Batches of the engine given to the store", counters.batches);
  text.counter("commands_total", "Commands in them", counters.commands);
  text.counter("stale_total", "Runs read anew because somebody else had written", counters.stale);
  text.counter("late_results_total", "Results of steps that nobody waited for any more",
               counters.late_results);
  text.counter("replays_total", "Runs rebuilt from their journal", counters.replays);
  text.counter("evictions_total", "Idle runs dropped from memory", counters.evictions);
  text.counter("recovered_total", "Runs with attempts that a crash had cut off",
               counters.recovered);
  text.gauge("live_runs", "Unfinished runs in memory", loop.live_runs());
  text.gauge("steps_in_flight", "Step bodies that are running", loop.bodies_in_flight());
  text.gauge("waiting_clients", "Callers that wait for the end of a run", loop.watchers());
  text.gauge("frame_bytes", "Memory of suspended runs", loop.frame_bytes());
  text.gauge("nodes", "Nodes of the store, this one included, as it last saw them",
             static_cast<std::uint64_t>(loop.nodes()));
  text.gauge("node_partitions", "Partitions whose runs this node drives", loop.partitions());
  text.gauge("node_draining", "Of them, those it is leaving to others", loop.draining());
  text.counter("partitions_gained_total", "Partitions that became this node's",
               counters.partitions_gained);
  text.counter("partitions_left_total", "Partitions it left to others in order",
               counters.partitions_left);
  text.counter("runs_moved_total", "Runs it could not drive and left to nodes that can",
               counters.runs_moved);
  text.counter("hints_total", "Runs of its own that others had done something to", counters.hints);
  text.gauge("store_lost", "1 while the store is not available", loop.is_store_lost() ? 1 : 0);
}

void tell_driver(MetricsText& text, const engine::DriverMeter& meter) {
  using enum MetricsText::Kind;
  text.begin("commit_commands", histogram, "Commands in a transaction");
  text.sample("", meter.commands, 1);
  text.begin("commit_seconds", histogram, "Time of a transaction, its flush included");
  text.sample("", meter.commit_time, nanoseconds_per_second);
  text.begin("commit_wait_seconds", histogram,
             "Time for which the oldest command of a transaction waited before it");
  text.sample("", meter.commit_wait, nanoseconds_per_second);
  text.begin("step_wait_seconds", histogram, "Time for which a step waited for a thread");
  text.sample("", meter.step_wait, nanoseconds_per_second);
  text.counter("store_errors_total", "Transactions that failed; each time the store is reopened",
               meter.store_errors);
  text.counter("lease_lost_total",
               "Transactions that were refused because others had taken this node's lease",
               meter.leases_lost);
}

void tell_kernel(MetricsText& text, const idempotency::KernelCounters& counters) {
  text.counter("idempotency_cache_hits_total", "Replays that came from memory",
               counters.cache_hits);
  text.begin("idempotency_total", MetricsText::Kind::counter, "What was found under a key");
  for (const auto& [outcome, value] : std::to_array<std::pair<std::string_view, std::uint64_t>>(
           {{"hit", counters.hits},
            {"miss", counters.misses},
            {"takeover", counters.takeovers},
            {"in_progress", counters.in_progress},
            {"conflict", counters.conflicts},
            {"unknown", counters.unknown},
            {"fence_lost", counters.fences_lost}})) {
    text.sample(fmt::format(R"(outcome="{}")", outcome), value);
  }
}

void tell_requests(MetricsText& text, const http::detail::ServerCore& core) {
  text.gauge("http_connections", "Connections that are open", core.connections());
  const auto meters = core.meters();
  text.begin("http_requests_total", MetricsText::Kind::counter,
             "Answers by route and class of status; no route: refused before one was found");
  for (const auto& meter : meters) {
    for (std::size_t its = 0; its < http::RequestMeter::classes; ++its) {
      if (meter->answers(its) == 0) continue;
      text.sample(fmt::format(R"({},status="{}xx")", labels_of(*meter), its), meter->answers(its));
    }
  }
  text.begin("http_request_seconds", MetricsText::Kind::histogram,
             "Time from a request's last byte to its answer, or to the first part of a stream");
  for (const auto& meter : meters) {
    if (was_asked(*meter)) text.sample(labels_of(*meter), meter->time(), nanoseconds_per_second);
  }
}

}  // namespace semel::serve
