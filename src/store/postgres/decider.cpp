#include "store/postgres/decider.hpp"

#include "store/answering.hpp"
#include "store/postgres/hinting.hpp"
#include "store/postgres/loading.hpp"
#include "store/postgres/units.hpp"
#include "store/postgres/writing.hpp"

#include <algorithm>

namespace semel::store::postgres {

namespace {

/// A tree of runs is read level by level; this many levels are a mistake.
constexpr int rounds_max = 200;

}  // namespace

bool looks_at_all(const Command& command) {
  return std::visit(
      [](const auto& each) {
        using Each = std::decay_t<decltype(each)>;
        return std::is_same_v<Each, OpenNode> || std::is_same_v<Each, ReserveKeys> ||
               std::is_same_v<Each, NodeWell> || std::is_same_v<Each, Sweep> ||
               std::is_same_v<Each, FindDue> || std::is_same_v<Each, FindWork> ||
               std::is_same_v<Each, KeepNode> || std::is_same_v<Each, GiveUp> ||
               std::is_same_v<Each, FindEnded> || std::is_same_v<Each, MoveRuns>;
      },
      command);
}

void Decider::make_workspaces(const std::set<std::string>& made,
                              const std::set<std::string>& asked) {
  Columns new_names{"b"};
  Columns names{"b"};
  for (const std::string& name : made) new_names.add(name);
  for (const std::string& name : asked) names.add(name);
  Pipeline pipeline{connection_};
  if (!made.empty()) {
    pipeline.add(
        "INSERT INTO semel.workspace (name) SELECT unnest($1::bytea[]) ON CONFLICT DO NOTHING",
        new_names.parameters());
  }
  pipeline.add("SELECT name, workspace FROM semel.workspace WHERE name = ANY($1::bytea[])",
               names.parameters(), [this](const Rows& rows) {
                 for (int i = 0; i < rows.size(); ++i)
                   known_.note_workspace(rows.text(i, 0), rows.integer(i, 1));
               });
  pipeline.run();
}

Answer Decider::answer(Held& held, const Command& command) {
  return std::visit(
      [&](const auto& each) -> Answer {
        using Each = std::decay_t<decltype(each)>;
        if constexpr (requires { store::answer(held.tables, each); }) {
          return store::answer(held.tables, each);
        } else if constexpr (std::is_same_v<Each, Transact>) {
          HeldUnits units{held, [&](const Command& inner) {
                            Answer made = answer(held, inner);
                            hint_later_start(held, inner, made);
                            return made;
                          }};
          return transact(units, each);
        } else {
          throw sql::SqlError("SQL_ERROR", "not a command for a transaction of the program's");
        }
      },
      command);
}

/// Applies the rules to what was read; none: something was missing, and `held.more` says what.
std::optional<std::vector<Answer>> Decider::apply(Held& held, std::span<const Command> commands) {
  const RuleCounters before = counters_;
  std::vector<Answer> answers;
  answers.reserve(commands.size());
  bool is_missing = false;
  for (const Command& command : commands) {
    const Held::Mark mark = held.mark();
    try {
      answers.push_back(answer(held, command));
    } catch (const Missing&) {
      held.undo_to(mark);
      is_missing = true;  // the others may say what they miss, too
    } catch (const NeedsSql&) {
      throw AloneWithSql{&command};
    }
  }
  if (!is_missing && !held.is_short_of_numbers()) return answers;
  static_cast<RuleCounters&>(counters_) = before;
  return std::nullopt;
}

std::unique_ptr<Held> Decider::decide(Segment& segment, const Around& around,
                                      std::vector<Answer>& answers) {
  for (int round = 0; round < rounds_max; ++round) {
    auto held = std::make_unique<Held>(segment.wants, segment.presumes, known_, shapes_, counters_);
    if (!segment.wants.empty()) {
      Pipeline pipeline{connection_};
      if (around.lead) around.lead(pipeline);
      add_loading(pipeline, *held, around.locks);
      pipeline.run();
      ++counters_.rounds;
      finish_loading(*held);
    }
    // Also where a run was met that is not locked: then nothing is decided yet.
    const bool is_complete = held->more.runs.empty();
    auto made = is_complete ? apply(*held, segment.commands) : std::nullopt;
    if (made) {
      for (std::size_t i = 0; i < made->size(); ++i)
        leave_hints(*held, segment.commands[i], (*made)[i]);
      if (answers.empty()) {
        answers = *std::move(made);
      } else {
        std::ranges::move(*made, std::back_inserter(answers));
      }
      return held;
    }
    if (!held->more.workspaces.empty()) throw NewWorkspaces{held->more.workspaces};
    segment.wants.add(held->more);
  }
  throw Failed{"", {base::Errc::refused, "a batch that needs ever more rows"}};
}

Answer Decider::decide_and_write(const Command& command,
                                 const std::function<void(const Held&)>& wrote) {
  if (looks_at_all(command) || std::holds_alternative<Transact>(command))
    throw sql::SqlError("SQL_ERROR", "not a command for a transaction of the program's");
  Segment one{.commands = {&command, 1}, .wants = {}};
  foresee(command, known_, one.wants, one.presumes);
  std::vector<Answer> answers;
  const auto held = decide(one, {}, answers);
  Pipeline writing{connection_};
  add_writing(writing, *held);
  writing.run();
  if (wrote) wrote(*held);
  return std::move(answers.front());
}

}  // namespace semel::store::postgres
