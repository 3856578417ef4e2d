// Several nodes on one PostgreSQL store: what they do together, and what they ask of it when there is nothing to do.
#include "app/bench.hpp"
#include "app/bench_child.hpp"
#include "app/bench_database.hpp"
#include "app/bench_engine.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>

namespace semel::app::bench {

namespace {

namespace json = boost::json;

constexpr double together_target = 0.8;
constexpr double statements_target = 2;
constexpr int runs_in_all = 1000;
constexpr int steps = 10;
constexpr const char* partitions_of_two =
    "SELECT count(*) FROM (SELECT node FROM semel.partition WHERE node IS NOT NULL GROUP BY node"
    " HAVING count(*) = 32) x";

PostgresNode node_named(const Bench& bench, const std::string& name) {
  return {.url = bench.postgres_url, .name = name, .lease = bench.pace.lease};
}

Child node_in_child(const Bench& bench, const std::string& name) {
  return Child{{{"do", "node"},
                {"url", bench.postgres_url},
                {"name", name},
                {"lease", bench.pace.lease.count()}}};
}

void begin(const Child& node, int runs, Seconds duration) {
  node.tell(json::serialize(json::object{{"runs", runs}, {"seconds", duration.count()}}));
}

double rate_of(const Child& node) { return node.answer().at("steps").to_number<double>(); }

/// Each has half of the partitions; a node that joins gets its share as leases are renewed.
void wait_for_shares(const Bench& bench) {
  store::postgres::Connection connection{{.url = bench.postgres_url}};
  const double until = seconds_now() + 60;
  while (ask(connection, partitions_of_two) != 2) {
    if (seconds_now() > until)
      throw Error("BENCH_FAILED", "two nodes have not shared the partitions after a minute");
    pause_for(Seconds{0.1});
  }
}

}  // namespace

void be_node(const json::object& job, std::ostream& out) {
  BenchEngine engine(
      PostgresNode{.url = std::string(job.at("url").as_string()),
                   .name = std::string(job.at("name").as_string()),
                   .lease = std::chrono::milliseconds{job.at("lease").to_number<int>()}});
  engine.start_workers();
  for (std::string line; std::getline(std::cin, line);) {
    const json::object order = json::parse(line).as_object();
    const Rate rate = engine.load({.runs = order.at("runs").to_number<int>(), .steps = steps},
                                  Seconds{order.at("seconds").to_number<double>()});
    fmt::print(out, "{}\n", json::serialize(json::object{{"steps", rate.steps_per_second}}));
    out.flush();
  }
}

void measure_nodes(Bench& bench) {
  std::vector<double> together;
  std::vector<double> alone;
  std::vector<double> ratios;
  {
    const Child first = node_in_child(bench, "first");
    begin(first, runs_in_all, bench.pace.window / 2);
    rate_of(first);  // the tables are there now
    const Child second = node_in_child(bench, "second");
    wait_for_shares(bench);
    for (int i = 0; i < bench.pace.rounds; ++i) {
      begin(first, runs_in_all, bench.pace.window);
      alone.push_back(rate_of(first));
      begin(first, runs_in_all / 2, bench.pace.window);
      begin(second, runs_in_all / 2, bench.pace.window);
      together.push_back(rate_of(first) + rate_of(second));
      ratios.push_back(together.back() / alone.back());
    }
  }
  bench.report.add(
      {.section = "Nodes",
       .name = fmt::format("{} steps x {} runs on two", steps, runs_in_all),
       .unit = Unit::per_second,
       .value = figure_of(together),
       .raw = figure_of(alone),
       .ratio = figure_of(ratios),
       .targets = {{Target::Of::ratio, Target::Sense::at_least, together_target, false}},
       .note = "raw: one of them does it all"});
  remove_tables(bench.postgres_url);
}

void measure_idle(Bench& bench) {
  Row row;
  {
    store::postgres::Connection connection{{.url = bench.postgres_url}};
    BenchEngine first(node_named(bench, "first"));
    first.start_workers();
    BenchEngine second(node_named(bench, "second"));
    second.start_workers();
    wait_for_shares(bench);
    const auto sent = [&] { return static_cast<double>(first.statements() + second.statements()); };
    const auto transactions = [&] {
      return ask(connection,
                 "SELECT xact_commit + xact_rollback FROM pg_stat_database"
                 " WHERE datname = current_database()");
    };
    const double before = sent();
    const double transactions_before = transactions();
    const double began = seconds_now();
    pause_for(bench.pace.idle);
    const double took = seconds_now() - began;
    row = {.section = "Nodes",
           .name = "statements of an idle one",
           .unit = Unit::ratio,
           .value = figure_of({(sent() - before) / took / 2}),
           .targets = {{Target::Of::value, Target::Sense::at_most, statements_target, false}},
           .note = fmt::format("a second; {:.2f} transactions",
                               (transactions() - transactions_before) / took / 2)};
  }
  bench.report.add(std::move(row));
  remove_tables(bench.postgres_url);
}

}  // namespace semel::app::bench
