// Duplicates, strategy 2: adopt. Whoever comes second waits for the owner and hands on its result, without holding a
// thread and across restarts.
#include <semel/semel.hpp>

#include <iostream>

struct Go {
  int version = 1;
};
BOOST_DESCRIBE_STRUCT(Go, (), (version))

struct Report {
  std::string month;
  int pages = 0;
};
BOOST_DESCRIBE_STRUCT(Report, (), (month, pages))

semel::Workflow<Report> make_report(std::string month) {
  auto go = semel::hook<Go>("report:" + month);
  if (auto owner = co_await go.conflict())
    co_return co_await semel::result_of<Report>(owner->run_id);

  co_await go;
  const int pages = co_await semel::step("print", [month] {
    std::cout << "printing the report of " << month << '\n';
    return 42;
  });
  co_return Report{month, pages};
}

int main() {
  semel::testing::Engine engine;
  engine.add("make-report", make_report);

  const auto first = engine.start(make_report, "2026-07");
  engine.run_until_idle();
  const auto second = engine.start(make_report, "2026-07");
  const auto third = engine.start(make_report, "2026-07");
  engine.run_until_idle();
  engine.crash();  // they wait in the journal, not in a thread

  engine.resume("report:2026-07", Go{});
  engine.run_until_idle();
  const int pages = first.run.result<Report>().pages;
  std::cout << "all three have " << pages << " pages\n";
  const bool as_told = pages == 42 && second.run.result<Report>().pages == pages &&
                       third.run.result<Report>().pages == pages;
  return as_told ? 0 : 1;
}
