#include "tests/process/kill_books.hpp"

#include "tests/process/kill_workflows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace semel::process {

namespace {

/// What the journal has of one step.
struct Recorded {
  std::string name;
  std::set<int> attempts;  ///< numbers that were durable before a body could begin
  std::optional<int> result_of;
};

int attempt_in(const boost::json::object& object) {
  return static_cast<int>(object.at("attempt").to_number<int>());
}

std::string op_in(const boost::json::object& object) {
  return std::string(object.at("op").as_string());
}

/// By step id. `problems` gets what must not be in a journal.
std::map<std::string, Recorded> steps_of(const Run& run, std::vector<std::string>& problems) {
  std::map<std::string, Recorded> steps;
  const auto step = [&](const std::string& op) -> Recorded& {
    return steps[run.id() + "-0-" + op];
  };
  for (const Entry& entry : run.journal()) {
    const auto& value = entry.value.as_object();
    if (entry.kind == "retry_due") step(op_in(value)).attempts.insert(attempt_in(value));
    if ((entry.kind == "recovered" || entry.kind == "reopened") && value.contains("ops")) {
      for (const Json& lost : value.at("ops").as_array()) {
        const int next = attempt_in(lost.as_object());
        if (next != 0) step(op_in(lost.as_object())).attempts.insert(next);
      }
    }
    if (entry.kind == "step_completed" || entry.kind == "step_failed") {
      Recorded& recorded = step(op_in(value));
      if (recorded.result_of)
        problems.push_back(fmt::format("{} {}: recorded twice", run.id(), op_in(value)));
      recorded.result_of = attempt_in(value);
    }
    const auto* requests = value.if_contains("requests");
    if (requests == nullptr) continue;
    for (const Json& request : requests->as_array()) {
      if (request.at("kind") != "step") continue;
      Recorded& asked = step(op_in(request.as_object()));
      asked.name = request.at("name").as_string();
      asked.attempts.insert(attempt_in(request.as_object()));
    }
  }
  return steps;
}

/// One step, its journal against the ledger.
void compare(const std::string& id, const Recorded& journal, const Effects& world,
             const Allowances& allowances, std::vector<std::string>& problems) {
  const auto problem = [&](const std::string& what) {
    problems.push_back(fmt::format("{} {}: {}", journal.name, id, what));
  };
  if (!allowances.late_beginnings &&
      std::ranges::adjacent_find(world.begun, std::greater_equal{}) != world.begun.end()) {
    problem(fmt::format("attempts began in the order {}", fmt::join(world.begun, " ")));
  }
  for (const int attempt : world.begun) {
    if (!journal.attempts.contains(attempt))
      problem(fmt::format("attempt {} began and no journal knows it", attempt));
    if (journal.result_of && attempt > *journal.result_of) {
      problem(fmt::format("attempt {} began although the result of attempt {} was recorded",
                          attempt, *journal.result_of));
    }
  }
  if (journal.result_of && !world.ended.contains(*journal.result_of)) {
    problem(fmt::format("the result of attempt {} is recorded and its body never came to its end",
                        *journal.result_of));
  }
  if (journal.name == "once" && world.begun.size() > 1) problem("an at_most_once step began twice");
}

/// A run may be taken for the cause of the kills only if it was under way at each of several in a row.
bool is_suspicious(const Run& run) {
  int in_a_row = 0;
  for (const Entry& entry : run.journal()) {
    if (entry.kind == "reopened" && in_a_row < 4) return false;
    const bool is_note = entry.kind == "begun" || entry.kind == "retry_due";
    if (!is_note) in_a_row = entry.kind == "recovered" ? in_a_row + 1 : 0;
  }
  return true;
}

}  // namespace

Books read_books(const Ledger& ledger) {
  Books books;
  for (const std::string& line : ledger.lines()) {
    const auto word = words(line);
    if (word.at(0) == "begin") books.effects[word.at(1)].begun.push_back(std::stoi(word.at(2)));
    if (word.at(0) == "end") books.effects[word.at(1)].ended.insert(std::stoi(word.at(2)));
    if (word.at(0) == "dead") books.dead.push_back(word.at(1));
    if (word.at(0) == "ack") {
      books.acks["client-" + word.at(1) + "-" + word.at(2)].push_back(
          {word.at(3), std::stoll(word.at(2))});
    }
  }
  return books;
}

Verdict judge(const std::string& store, const Books& books, const Allowances& allowances) {
  Verdict verdict;
  auto& problems = verdict.problems;
  Engine engine{store};  // no workers: nothing moves any more
  std::map<std::string, Recorded> steps;
  for (const Run& run : engine.runs({.limit = 10'000'000})) {
    ++verdict.runs;
    if (run.status() != RunStatus::completed) {
      problems.push_back(
          fmt::format("run {} is {}: {}", run.id(), to_string(run.status()), run.error()));
    }
    steps.merge(steps_of(run, problems));
  }

  std::size_t keyed = 0;
  for (const auto& [key, acks] : books.acks) {
    const auto holders = engine.runs({.key = key});
    keyed += holders.size();
    for (const Ack& ack : acks) {
      if (holders.size() != 1 || holders.front().id() != ack.run_id) {
        problems.push_back(fmt::format("{} was acknowledged as {} and has {} runs", key, ack.run_id,
                                       holders.size()));
        continue;
      }
      const Json input = holders.front().input();
      if (input != Json(boost::json::array{ack.n}))
        problems.push_back(fmt::format("{} has other input", key));
    }
    if (holders.size() != 1) continue;
    const int client = std::stoi(key.substr(std::string_view{"client-"}.size()));
    const auto name = KillWorkflows::names.at(static_cast<std::size_t>(acks.front().n + client) %
                                              KillWorkflows::names.size());
    const auto result = holders.front().result<Number>();
    if (!KillWorkflows::is_right(name, acks.front().n, result)) {
      problems.push_back(fmt::format("{} ({}): {} is wrong", key, name, result));
    }
    if (name == "once" && result < 0) ++verdict.outcomes_unknown;
  }
  if (keyed != books.acks.size())
    problems.push_back(fmt::format("{} keys have {} runs", books.acks.size(), keyed));

  // Rows of the program's own, written in the same commits as the runs that they belong to.
  const auto [placed, booked] = engine.transaction([](sql::Transaction& tx) {
    return tx
        .query<std::tuple<std::size_t, std::size_t>>(
            "SELECT (SELECT count(*) FROM placed), (SELECT count(*) FROM booking)")
        .front();
  });
  const std::size_t bookings = engine.runs({.workflow = "books", .limit = 10'000'000}).size();
  if (placed != bookings || booked != 3 * bookings) {
    problems.push_back(fmt::format("{} runs have booked: {} were placed, {} rows were written",
                                   bookings, placed, booked));
  }

  for (const std::string& id : books.dead) {
    if (!is_suspicious(engine.run(id)))
      problems.push_back(fmt::format("run {} was dead too soon", id));
  }
  for (const auto& [id, world] : books.effects) {
    const auto found = steps.find(id);
    if (found == steps.end()) {
      problems.push_back(fmt::format("{} had an effect and no journal knows it", id));
      continue;
    }
    compare(id, found->second, world, allowances, problems);
    verdict.attempts += world.begun.size();
    verdict.attempts_lost += world.begun.size() - world.ended.size();
  }
  for (const auto& [id, journal] : steps) {
    if (journal.result_of && !books.effects.contains(id))
      problems.push_back(fmt::format("{} never ran", id));
  }
  verdict.steps = steps.size();
  return verdict;
}

}  // namespace semel::process
