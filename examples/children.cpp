// Workflows that use workflows: as part of the same run, as a run of its own that is waited for, as one that is not.
#include <semel/semel.hpp>

#include <iostream>

using namespace std::chrono_literals;

struct Invoice {
  std::string number;
  int cents = 0;
};
BOOST_DESCRIBE_STRUCT(Invoice, (), (number, cents))

struct Summary {
  int total = 0;
  std::string archive_run;
  std::string archived;
  std::string problem;
};
BOOST_DESCRIBE_STRUCT(Summary, (), (total, archive_run, archived, problem))

semel::Workflow<int> price(std::string item) {
  co_return co_await semel::step("look-up", [item] { return static_cast<int>(item.size()) * 100; });
}

semel::Workflow<Invoice> invoice(std::string customer, std::vector<std::string> items) {
  Invoice result{"invoice-" + customer};
  for (const std::string& item : items)
    result.cents += co_await price(item);  // inlined: steps of this very run
  co_return result;
}

semel::Workflow<std::string> archive(std::string month) {
  co_await semel::sleep(1ms);
  co_return "archived " + month;
}

semel::Workflow<void> audit(std::string month) {
  co_await semel::step(
      "audit", [month] { throw semel::FatalError("the books of " + month + " are missing"); });
}

semel::Workflow<Summary> close_month(std::string month) {
  Summary summary;

  // Runs of their own, with a key: whoever else asks for this customer's invoice gets the same one.
  auto [ada, bob] = co_await semel::all(
      semel::child({.key = month + "/ada"}, invoice, "ada",
                   std::vector<std::string>{"tea", "bread"}),
      semel::child({.key = month + "/bob"}, invoice, "bob", std::vector<std::string>{"ham"}));
  summary.total = ada.cents + bob.cents;

  // Started and left alone; any run may wait for it, by its id, without holding a thread.
  summary.archive_run = co_await semel::spawn(archive, month);
  summary.archived = co_await semel::result_of<std::string>(summary.archive_run);

  // A child that fails is an outcome like a step that does.
  const auto audited = co_await semel::settled(semel::child(audit, month));
  summary.problem = audited.message();
  co_return summary;
}

int main() {
  semel::Engine engine{"memory:"};
  engine.add("invoice", invoice);
  engine.add("archive", archive);
  engine.add("audit", audit);
  engine.add("close-month", close_month);
  engine.start_workers();

  const auto summary = engine.start(close_month, "2026-07").run.result<Summary>();
  std::cout << "total    " << summary.total << '\n'
            << "archive  " << summary.archived << '\n'
            << "audit    " << summary.problem << '\n';

  // The children are runs like others: they can be looked up and found by their key.
  const auto ada = engine.runs({.workflow = "invoice", .key = "2026-07/ada"});
  const bool as_told = summary.total == 1100 && summary.archived == "archived 2026-07" &&
                       summary.problem.find("are missing") != std::string::npos &&
                       ada.size() == 1 && ada.front().result<Invoice>().cents == 800 &&
                       engine.runs({.workflow = "price"}).empty();
  return as_told ? 0 : 1;
}
