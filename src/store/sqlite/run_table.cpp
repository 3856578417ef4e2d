#include "store/sqlite/run_table.hpp"

#include <fmt/format.h>

namespace semel::store::sqlite {

const char* const record_columns =
    "r.run, w.name, r.partition, r.id, r.instance, r.workflow, r.code_version, r.status, r.input, "
    "r.output, r.failure,"
    " r.idempotency_key, r.fingerprint, r.created_at, r.ended_at, r.deadline, r.parent,"
    " (SELECT max(j.seq) FROM semel_journal j WHERE j.run = r.run), r.generation, r.first_seq";

const char* const record_source = "semel_run r JOIN semel_workspace w ON w.workspace = r.workspace";

namespace {

Status read_status(const Rows& rows, int column) {
  const std::int64_t number = rows.integer(column);
  if (number < 0 || number > static_cast<std::int64_t>(Status::diverged)) {
    throw_corrupt(fmt::format("a run has the unknown status {}", number));
  }
  return static_cast<Status>(number);
}

std::optional<Holder> read_holder(Rows rows) {
  if (!rows.next()) return std::nullopt;
  return Holder{.run = rows.integer(0),
                .id = rows.text(1),
                .status = read_status(rows, 2),
                .workflow = rows.text(3),
                .fingerprint = rows.text(4),
                .until = rows.optional_time(5)};
}

std::vector<RunKey> read_keys(Rows rows) {
  std::vector<RunKey> keys;
  while (rows.next()) keys.push_back(rows.integer(0));
  return keys;
}

}  // namespace

base::Rare<journal::Failure> read_failure(const Rows& rows, int column) {
  if (rows.is_null(column)) return std::nullopt;
  auto failure = journal::decode_failure(rows.view(column));
  if (!failure) throw_corrupt(failure.error().message);
  return *std::move(failure);
}

RunRecord read_record(const Rows& rows) {
  RunRecord record;
  record.key = rows.integer(0);
  record.workspace = rows.text(1);
  record.partition = static_cast<std::int32_t>(rows.integer(2));
  record.id = rows.text(3);
  record.instance = rows.text(4);
  record.workflow = rows.text(5);
  record.code_version = static_cast<std::int32_t>(rows.integer(6));
  record.status = read_status(rows, 7);
  record.input = rows.text(8);
  record.output = rows.text(9);
  record.failure = read_failure(rows, 10);
  record.idempotency_key = rows.optional_text(11);
  record.fingerprint = rows.text(12);
  record.created_at = rows.time(13);
  record.ended_at = rows.optional_time(14);
  record.deadline = rows.optional_time(15);
  record.parent = rows.optional_integer(16);
  if (!rows.is_null(17)) record.version = static_cast<Seq>(rows.integer(17));
  record.generation = static_cast<std::uint32_t>(rows.integer(18));
  record.first_seq = static_cast<Seq>(rows.integer(19));
  return record;
}

// ------------------------------------------------------------------------------------------------ workspaces

std::optional<std::int64_t> RunTable::workspace(const std::string& name) {
  if (const auto known = workspaces_.find(name); known != workspaces_.end()) return known->second;
  Rows rows = find_workspace_.select(name);
  if (!rows.next()) return std::nullopt;
  workspaces_.emplace(name, rows.integer(0));
  return rows.integer(0);
}

std::int64_t RunTable::workspace_or_create(const std::string& name) {
  if (const auto known = workspace(name)) return *known;
  insert_workspace_.run(name);
  return *workspace(name);
}

// ------------------------------------------------------------------------------------------------ looking

std::optional<Holder> RunTable::holder_of_key(std::int64_t workspace, const std::string& key) {
  return read_holder(holder_of_key_.select(workspace, key));
}

std::optional<Holder> RunTable::holder_of_id(std::int64_t workspace, const std::string& id) {
  return read_holder(holder_of_id_.select(workspace, id));
}

std::optional<RunKey> RunTable::find(std::int64_t workspace, const std::string& id) {
  Rows rows = find_.select(workspace, id);
  if (!rows.next()) return std::nullopt;
  return rows.integer(0);
}

std::optional<Status> RunTable::status(RunKey run) {
  Rows rows = status_.select(run);
  if (!rows.next()) return std::nullopt;
  return read_status(rows, 0);
}

std::optional<RunRecord> RunTable::record(RunKey run) {
  Rows rows = record_.select(run);
  if (!rows.next()) return std::nullopt;
  RunRecord record = read_record(rows);
  record.attributes = attributes(run);
  return record;
}

std::map<std::string, std::string> RunTable::attributes(RunKey run) {
  std::map<std::string, std::string> found;
  Rows rows = attributes_.select(run);
  while (rows.next()) found.emplace(rows.text(0), rows.text(1));
  return found;
}

std::optional<RunTable::Place> RunTable::place(RunKey run) {
  Rows rows = place_.select(run);
  if (!rows.next()) return std::nullopt;
  return Place{.workspace = rows.integer(0),
               .workspace_name = rows.text(1),
               .id = rows.text(2),
               .parent = rows.optional_integer(3)};
}

RunTable::Outcome RunTable::outcome(RunKey run) {
  Rows rows = outcome_.select(run);
  if (!rows.next()) throw_corrupt(fmt::format("run {} vanished inside a transaction", run));
  return {.status = read_status(rows, 0), .output = rows.text(1), .failure = read_failure(rows, 2)};
}

std::vector<RunKey> RunTable::unfinished_children(RunKey parent) {
  return read_keys(children_.select(parent));
}

std::vector<RunKey> RunTable::keys_expired(TimePoint now, std::int64_t limit) {
  return read_keys(keys_expired_.select(now, limit));
}

std::vector<RunKey> RunTable::runs_expired(TimePoint now, std::int64_t limit) {
  return read_keys(runs_expired_.select(now, limit));
}

// ------------------------------------------------------------------------------------------------ writing

bool RunTable::insert(const NewRun& run, std::int64_t workspace, Status status) {
  const auto& key = run.idempotency_key;
  std::int64_t era = 0;
  if (key) {
    era = key_eras_.newest();
    if (key_eras_.may_be_older(workspace, *key) && holder_of_key(workspace, *key)) return false;
  }
  const std::optional<int> holds_key = key ? std::optional{1} : std::nullopt;
  const std::int64_t inserted =
      insert_.run(run.key, workspace, std::max(run.partition, 0), status, holds_key, run.created_at,
                  run.deadline, run.parent, run.code_version, stored_duration(run.key_ttl),
                  stored_duration(run.retention), run.id, run.instance, run.workflow, key,
                  Blob{run.fingerprint}, run.input, era);
  if (inserted == 1 && key) key_eras_.took(workspace, *key);
  return inserted == 1;
}

void RunTable::set_status(RunKey run, Status status) { set_status_.run(run, status); }

void RunTable::mark(RunKey run, Status status, const journal::Failure& reason) {
  const std::string bytes = journal::encode(reason);
  mark_.run(run, status, Blob{bytes});
}

void RunTable::end(RunKey run, const End& end, TimePoint now) {
  std::string bytes;
  if (end.failure) bytes = journal::encode(*end.failure);
  const std::optional<Blob> failure = end.failure ? std::optional{Blob{bytes}} : std::nullopt;
  end_.run(run, end.status, end.output, failure, now);
}

bool RunTable::reopen(RunKey run, Status status) {
  std::optional<std::string> key;
  std::int64_t workspace = 0;
  {
    Rows rows = key_of_.select(run);
    if (!rows.next()) return false;
    workspace = rows.integer(0);
    key = rows.optional_text(1);
  }
  if (key) {
    const auto holder = holder_of_key(workspace, *key);
    if (holder && holder->run != run) return false;
    key_eras_.took(workspace, *key);
  }
  return reopen_.run(run, status) == 1;
}

void RunTable::set_attribute(RunKey run, const std::string& name, const std::string& value) {
  set_attribute_.run(run, name, value);
}

void RunTable::release_key(RunKey run) { release_key_.run(run); }

void RunTable::remove(RunKey run) {
  remove_attributes_.run(run);
  remove_.run(run);
}

}  // namespace semel::store::sqlite
