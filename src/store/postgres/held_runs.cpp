#include "base/assert.hpp"
#include "store/postgres/held.hpp"
#include "store/postgres/parameters.hpp"

#include <algorithm>

namespace semel::store::postgres {

namespace {

/// The ledgers of `held`, in one order.
template <class Function>
void for_each_ledger(auto& held, const Function& function) {
  std::size_t i = 0;
  function(i++, held.runs);
  function(i++, held.inputs);
  function(i++, held.outputs);
  function(i++, held.ends);
  function(i++, held.journal);
  function(i++, held.attributes);
  function(i++, held.timers);
  function(i++, held.inbox);
  function(i++, held.waits);
  function(i++, held.progress);
  function(i++, held.cleared);
  function(i++, held.hooks);
  function(i++, held.payloads);
  function(i++, held.resumes);
  function(i++, held.reservations);
  function(i++, held.garbage);
  function(i++, held.presumed_ends);
}

/// Stands for a number that there was none left of; the batch is decided again with enough of them.
constexpr std::int64_t stand_in = std::int64_t{1} << 62U;

class HeldRuns final : public RunTable {
 public:
  explicit HeldRuns(Held& held) : held_(held) {}

  std::optional<std::int64_t> workspace(const std::string& name) override {
    const auto number = held_.known.workspace(name);
    if (!number && !held_.wants.names.contains(name)) {
      held_.more.names.insert(name);
      throw Missing{};
    }
    return number;
  }

  std::int64_t workspace_or_create(const std::string& name) override {
    if (const auto number = held_.known.workspace(name)) return *number;
    held_.more.workspaces.insert(name);
    throw Missing{};
  }

  bool insert(const NewRun& run, std::int64_t workspace, Status status) override {
    // Code that is run again makes another id each time, which nobody can foresee; but one that was made is nobody else's.
    if (!run.chosen_id) made_.emplace(workspace, run.id);
    if (by_id(workspace, run.id)) return false;
    if (run.idempotency_key && by_key(workspace, *run.idempotency_key)) return false;
    RunRow row{.workspace = workspace,
               .created_at = run.created_at,
               .deadline = run.deadline,
               .parent = run.parent,
               .key_ttl = stored_duration(run.key_ttl),
               .retention = stored_duration(run.retention),
               .partition =
                   run.partition == any_partition ? held_.known.owned.home(run.key) : run.partition,
               .code_version = run.code_version,
               .status = status,
               .holds_key = run.idempotency_key.has_value(),
               .id = run.id,
               .instance = run.instance,
               .workflow = run.workflow,
               .idempotency_key = run.idempotency_key,
               .fingerprint = run.fingerprint};
    held_.index(run.key, row);
    held_.parts[run.key] = all_parts;
    held_.known.note_run(run.key, workspace);
    held_.runs.put(run.key, std::move(row));
    held_.inputs.put(run.key, run.input);
    held_.outputs.put(run.key, "");
    held_.ends.put(run.key, std::nullopt);
    return true;
  }

  std::optional<Holder> holder_of_key(std::int64_t workspace, const std::string& key) override {
    const auto run = by_key(workspace, key);
    return run ? std::optional{holder(*run, held_.row(*run)->key_until)} : std::nullopt;
  }

  std::optional<Holder> holder_of_id(std::int64_t workspace, const std::string& id) override {
    const auto run = by_id(workspace, id);
    return run ? std::optional{holder(*run, held_.row(*run)->keep_until)} : std::nullopt;
  }

  std::optional<RunKey> find(std::int64_t workspace, const std::string& id) override {
    return by_id(workspace, id);
  }

  std::optional<Status> status(RunKey run) override {
    const RunRow* row = held_.row(run);
    return row == nullptr ? std::nullopt : std::optional{row->status};
  }

  std::optional<RunRecord> record(RunKey run) override {
    const RunRow* row = held_.row(run);
    if (row == nullptr) return std::nullopt;
    held_.need(run, record_parts);
    RunRecord record{.key = run,
                     .workspace = name_of(row->workspace),
                     .partition = row->partition,
                     .id = row->id,
                     .instance = row->instance,
                     .workflow = row->workflow,
                     .code_version = row->code_version,
                     .status = row->status,
                     .input = *held_.inputs.find(run),
                     .output = *held_.outputs.find(run),
                     .failure = decode_failure(row->failure),
                     .idempotency_key = row->idempotency_key,
                     .fingerprint = row->fingerprint,
                     .created_at = row->created_at,
                     .ended_at = row->ended_at,
                     .deadline = row->deadline,
                     .parent = row->parent,
                     .version = *held_.ends.find(run),
                     .generation = row->generation,
                     .first_seq = row->first_seq};
    for (auto at = held_.attributes.from({run, ""});
         at != held_.attributes.slots().end() && at->first.first == run; ++at) {
      if (at->second.now) record.attributes.emplace(at->first.second, *at->second.now);
    }
    return record;
  }

  std::optional<Place> place(RunKey run) override {
    const RunRow* row = held_.row(run);
    if (row == nullptr) return std::nullopt;
    return Place{.workspace = row->workspace,
                 .workspace_name = name_of(row->workspace),
                 .id = row->id,
                 .parent = row->parent};
  }

  Outcome outcome(RunKey run) override {
    const RunRow* row = held_.row(run);
    SEMEL_ASSERT(row != nullptr);
    if (held_.outputs.find(run) == nullptr) held_.miss(run, texts_part);
    return {.status = row->status,
            .output = *held_.outputs.find(run),
            .failure = decode_failure(row->failure)};
  }

  std::vector<RunKey> unfinished_children(RunKey parent) override {
    held_.need(parent, children_part);
    std::vector<RunKey> found;
    for (const RunKey child : held_.by_parent[parent]) {
      const RunRow* row = held_.row(child);
      if (row != nullptr && row->parent == parent && !is_end(row->status)) found.push_back(child);
    }
    return found;
  }

  void set_status(RunKey run, Status status) override {
    if (held_.row(run)->status != status) held_.runs.edit(run).status = status;
  }

  void raise_code_version(RunKey run, std::int32_t version) override {
    if (held_.row(run)->code_version < version) held_.runs.edit(run).code_version = version;
  }

  void mark(RunKey run, Status status, const journal::Failure& reason) override {
    RunRow& row = held_.runs.edit(run);
    row.status = status;
    row.failure = journal::encode(reason);
  }

  void end(RunKey run, const End& end, TimePoint now) override {
    if (const OpenRun* open = held_.presumed(run)) {
      if (!open->is_alone) held_.miss(run, hooks_part | waiters_part);
      PresumedEnd presumed{.at = now, .status = end.status, .output = end.output};
      if (end.failure) presumed.failure = journal::encode(*end.failure);
      held_.presumed_ends.put(run, std::move(presumed));
      return;
    }
    RunRow& row = held_.runs.edit(run);
    row.status = end.status;
    row.failure.reset();
    if (end.failure) row.failure = journal::encode(*end.failure);
    row.ended_at = now;
    row.key_until.reset();
    if (row.holds_key) row.key_until = to_ns(now) + row.key_ttl;
    row.keep_until =
        to_ns(now) + (row.holds_key ? std::max(row.key_ttl, row.retention) : row.retention);
    if (!end.output.empty() || held_.outputs.find(run) != nullptr)
      held_.outputs.put(run, end.output);
  }

  void continue_as_new(RunKey run, const std::string& input, Seq first_seq) override {
    RunRow& row = held_.runs.edit(run);
    row.status = Status::running;
    ++row.generation;
    row.first_seq = first_seq;
    held_.inputs.put(run, input);
  }

  bool reopen(RunKey run, Status status) override {
    const RunRow* before = held_.row(run);
    if (before->idempotency_key) {
      const auto holder = by_key(before->workspace, *before->idempotency_key);
      if (holder && *holder != run) return false;
    }
    RunRow& row = held_.runs.edit(run);
    row.status = status;
    row.failure.reset();
    row.ended_at.reset();
    row.key_until.reset();
    row.keep_until.reset();
    row.holds_key = row.idempotency_key.has_value();
    held_.outputs.put(run, "");
    return true;
  }

  void set_attribute(RunKey run, const std::string& name, const std::string& value) override {
    held_.attributes.put({run, name}, value);
  }

  void release_key(RunKey run) override {
    static_cast<void>(held_.row(run));
    RunRow& row = held_.runs.edit(run);
    row.holds_key = false;
    row.key_until.reset();
  }

  void remove(RunKey run) override {
    std::vector<std::string> names;
    for (auto at = held_.attributes.from({run, ""});
         at != held_.attributes.slots().end() && at->first.first == run; ++at)
      names.push_back(at->first.second);
    for (const std::string& name : names) held_.attributes.erase({run, name});
    held_.runs.erase(run);
    held_.inputs.erase(run);
    held_.outputs.erase(run);
    held_.ends.erase(run);
  }

 private:
  Holder holder(RunKey run, const std::optional<std::int64_t>& until) {
    const RunRow* row = held_.row(run);
    return {.run = run,
            .id = row->id,
            .status = row->status,
            .workflow = row->workflow,
            .fingerprint = row->fingerprint,
            .until = until ? std::optional{from_ns(*until)} : std::nullopt};
  }

  std::optional<RunKey> by_id(std::int64_t workspace, const std::string& id) {
    if (const auto found = held_.by_id.find({workspace, id}); found != held_.by_id.end()) {
      for (const RunKey run : found->second) {
        if (held_.runs.find(run) != nullptr) return run;
      }
    }
    if (made_.contains({workspace, id})) return std::nullopt;
    if (!held_.wants.ids.contains({workspace, id})) {
      held_.more.ids[{workspace, id}] = row_part;
      throw Missing{};
    }
    return std::nullopt;
  }

  std::optional<RunKey> by_key(std::int64_t workspace, const std::string& key) {
    if (const auto found = held_.by_key.find({workspace, key}); found != held_.by_key.end()) {
      for (const RunKey run : found->second) {
        const RunRow* row = held_.runs.find(run);
        if (row != nullptr && row->holds_key) return run;
      }
    }
    if (!held_.wants.keys.contains({workspace, key})) {
      held_.more.keys[{workspace, key}] = row_part;
      throw Missing{};
    }
    return std::nullopt;
  }

  std::string name_of(std::int64_t workspace) const { return held_.known.names.at(workspace); }

  Held& held_;
  std::set<Name> made_;  ///< ids that were made for runs of this batch
};

class HeldJournal final : public JournalTable {
 public:
  explicit HeldJournal(Held& held) : held_(held) {}

  bool append_if_next(RunKey run, Seq seq, TimePoint at, std::string_view entry) override {
    if (const OpenRun* open = held_.presumed(run)) {
      const auto* end = held_.ends.find(run);
      // Only what is read refuses.
      if ((end == nullptr ? open->next : **end + 1) != seq) held_.miss(run, row_part);
      put(run, seq, at, entry);
      return true;
    }
    const RunRow* row = held_.row(run);
    if (row == nullptr || row->status > Status::waiting || next(run) != seq) return false;
    append(run, seq, at, entry);
    return true;
  }

  void append(RunKey run, Seq seq, TimePoint at, std::string_view entry) override {
    SEMEL_ASSERT(next(run) == seq);
    put(run, seq, at, entry);
  }

  std::optional<Seq> last(RunKey run) override {
    const auto* end = held_.ends.find(run);
    if (end == nullptr || held_.presumed(run) == nullptr) held_.need(run, row_part);
    return end == nullptr ? std::nullopt : *end;
  }

  std::vector<std::string> entries(RunKey run, Seq first) override {
    held_.need(run, entries_part);
    std::vector<std::string> found;
    for (auto at = held_.journal.from({run, first});
         at != held_.journal.slots().end() && at->first.first == run; ++at)
      found.push_back(at->second.now->bytes);
    return found;
  }

  void discard(RunKey run) override { held_.garbage.put(run, true); }

 private:
  void put(RunKey run, Seq seq, TimePoint at, std::string_view entry) {
    held_.journal.put({run, seq}, {.at = at, .bytes = std::string{entry}});
    held_.ends.put(run, seq);
  }

  Held& held_;
};

}  // namespace

Held::Held(const Wants& wanted, bool presumes_open, Known& known_facts,
           base::ShapeChecker& shape_checker, RuleCounters& counted)
    : wants(wanted),
      presumes(presumes_open),
      known(known_facts),
      run_table(make_run_table(*this)),
      journal_table(make_journal_table(*this)),
      wakeups(make_wakeups(*this)),
      hook_table(make_hook_table(*this)),
      reservation_table(make_reservation_table(*this)),
      tables{*run_table,         *journal_table, *wakeups,      *hook_table,
             *reservation_table, open_runs,      shape_checker, counted} {}

Held::~Held() = default;

const OpenRun* Held::presumed(RunKey run) const {
  if (!presumes || parts.contains(run) || presumed_ends.find(run) != nullptr) return nullptr;
  const auto open = known.open.find(run);
  return open == known.open.end() ? nullptr : &open->second;
}

void Held::miss(RunKey run, Parts missing) {
  more.runs[run] |= row_part | missing;
  throw Missing{};
}

void Held::need(RunKey run, Parts needed) {
  const auto read = parts.find(run);
  if (read == parts.end() || (read->second & needed) != needed) miss(run, needed);
}

const RunRow* Held::row(RunKey run) {
  need(run, row_part);
  return runs.find(run);
}

std::int64_t Held::draw(Number kind) {
  const auto i = static_cast<std::size_t>(kind);
  const std::size_t next = drawn[i]++;
  return next < numbers[i].size() ? numbers[i][next] : stand_in + static_cast<std::int64_t>(next);
}

bool Held::is_short_of_numbers() {
  bool is_short = false;
  for (std::size_t i = 0; i < number_kinds; ++i) {
    if (drawn[i] <= numbers[i].size()) continue;
    more.numbers[i] = static_cast<std::int64_t>(drawn[i]);
    is_short = true;
  }
  return is_short;
}

Held::Mark Held::mark() const {
  Mark mark;
  for_each_ledger(*this,
                  [&](std::size_t i, const auto& ledger) { mark.ledgers[i] = ledger.mark(); });
  mark.drawn = drawn;
  return mark;
}

void Held::undo_to(const Mark& mark) {
  for_each_ledger(*this, [&](std::size_t i, auto& ledger) { ledger.undo_to(mark.ledgers[i]); });
  drawn = mark.drawn;
}

void Held::index(RunKey run, const RunRow& row) {
  by_id[{row.workspace, row.id}].insert(run);
  if (row.idempotency_key) by_key[{row.workspace, *row.idempotency_key}].insert(run);
  if (row.parent) by_parent[*row.parent].insert(run);
}

void Held::index(HookKey key, const HeldHook& hook) {
  hooks_by_token[{hook.row.workspace, hook.row.token}].insert(key);
  hooks_by_run[hook.row.run].insert(key);
}

void Held::index(std::int64_t payload, const PayloadRow& row) {
  payloads_by_hook[row.hook].insert(payload);
}

std::unique_ptr<RunTable> make_run_table(Held& held) { return std::make_unique<HeldRuns>(held); }

std::unique_ptr<JournalTable> make_journal_table(Held& held) {
  return std::make_unique<HeldJournal>(held);
}

base::Rare<journal::Failure> decode_failure(const std::optional<std::string>& bytes) {
  if (!bytes) return std::nullopt;
  auto failure = journal::decode_failure(*bytes);
  if (!failure) throw_corrupt(failure.error().message);
  return *std::move(failure);
}

}  // namespace semel::store::postgres
