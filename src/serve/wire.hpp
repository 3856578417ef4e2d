// Bodies and answers as types: what `decode` accepts and /openapi.json says. Names are those of the wire.
#pragma once

#include <semel/value.hpp>

#include <boost/describe.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming)
namespace semel::serve::wire {

enum class OnRunning { attach, reject, supersede };
BOOST_DESCRIBE_ENUM(OnRunning, attach, reject, supersede)
enum class AfterDone { returnResult, startNew, startNewIfFailed, reject };
BOOST_DESCRIBE_ENUM(AfterDone, returnResult, startNew, startNewIfFailed, reject)
enum class Fingerprint { on, off };
BOOST_DESCRIBE_ENUM(Fingerprint, on, off)
enum class Scope { read, write, admin };
BOOST_DESCRIBE_ENUM(Scope, read, write, admin)

/// Durations are texts: "30s".
struct StartOptions {
  std::optional<Json> input{};
  std::optional<std::string> idempotencyKey{};
  std::optional<std::string> runId{};
  std::optional<std::string> token{};
  std::optional<std::string> delay{};
  std::optional<OnRunning> onRunning{};
  std::optional<AfterDone> afterDone{};
  std::optional<std::string> keyTtl{};
  std::optional<Fingerprint> fingerprint{};
  std::optional<std::string> deadline{};
  std::optional<std::map<std::string, std::string>> attributes{};
};
BOOST_DESCRIBE_STRUCT(StartOptions, (),
                      (input, idempotencyKey, runId, token, delay, onRunning, afterDone, keyTtl,
                       fingerprint, deadline, attributes))

struct StartRun : StartOptions {
  std::string workflow;
};
BOOST_DESCRIBE_STRUCT(StartRun, (StartOptions), (workflow))

struct ResumeOrStart {
  std::string workflow;
  Json payload;
  std::optional<StartOptions> start{};
};
BOOST_DESCRIBE_STRUCT(ResumeOrStart, (), (workflow, payload, start))

struct Cancel {
  using may_be_empty = void;
  std::optional<std::string> grace{};
};
BOOST_DESCRIBE_STRUCT(Cancel, (), (grace))

struct Fork {
  std::uint64_t seq = 0;
};
BOOST_DESCRIBE_STRUCT(Fork, (), (seq))

/// A body that says nothing: empty, or {}.
struct Nothing {
  using may_be_empty = void;
};
BOOST_DESCRIBE_STRUCT(Nothing, (), ())

struct RunError {
  std::string code;
  std::string message;
  std::optional<Json> details{};
};
BOOST_DESCRIBE_STRUCT(RunError, (), (code, message, details))

struct WaitingFor {
  std::string kind;
  std::optional<std::string> token{};
  std::optional<std::string> since{};
  std::optional<std::string> until{};
  std::optional<std::string> name{};
  std::optional<std::uint32_t> attempt{};
  std::optional<std::string> runId{};
};
BOOST_DESCRIBE_STRUCT(WaitingFor, (), (kind, token, since, until, name, attempt, runId))

struct Run {
  std::string id;
  std::string workflow;
  std::string status;
  std::uint64_t version = 0;
  std::string workspace;
  Json input;
  std::optional<Json> output{};
  std::optional<RunError> error{};
  std::optional<std::string> idempotencyKey{};
  std::string createdAt;
  std::optional<std::string> startedAt{};
  std::optional<std::string> completedAt{};
  std::vector<WaitingFor> waitingFor;
  std::optional<std::uint32_t> attempts{};
  std::optional<std::string> node{};
  std::map<std::string, std::string> attributes;
};
BOOST_DESCRIBE_STRUCT(Run, (),
                      (id, workflow, status, version, workspace, input, output, error,
                       idempotencyKey, createdAt, startedAt, completedAt, waitingFor, attempts,
                       node, attributes))

struct Started {
  Run run;
  bool created = false;
};
BOOST_DESCRIBE_STRUCT(Started, (), (run, created))

struct Forked {
  Run run;
};
BOOST_DESCRIBE_STRUCT(Forked, (), (run))

struct Woken {
  int woken = 0;
};
BOOST_DESCRIBE_STRUCT(Woken, (), (woken))

struct Result {
  std::string status;
  std::optional<Json> output{};
  std::optional<RunError> error{};
};
BOOST_DESCRIBE_STRUCT(Result, (), (status, output, error))

struct RunList {
  std::vector<Run> items;
  std::optional<std::string> nextCursor{};
};
BOOST_DESCRIBE_STRUCT(RunList, (), (items, nextCursor))

struct Entry {
  std::uint64_t seq = 0;
  std::string at;
  std::string kind;
  std::string name;
  Json value;
};
BOOST_DESCRIBE_STRUCT(Entry, (), (seq, at, kind, name, value))

struct EntryList {
  std::vector<Entry> items;
  std::optional<std::string> nextCursor{};
};
BOOST_DESCRIBE_STRUCT(EntryList, (), (items, nextCursor))

struct Resumed {
  std::string runId;
  std::string hookId;
};
BOOST_DESCRIBE_STRUCT(Resumed, (), (runId, hookId))

struct ResumedOrStarted {
  std::string runId;
  bool started = false;
};
BOOST_DESCRIBE_STRUCT(ResumedOrStarted, (), (runId, started))

struct Hook {
  std::string token;
  std::string hookId;
  std::string runId;
  std::string since;
  std::uint64_t waiting = 0;
  bool webhook = false;
};
BOOST_DESCRIBE_STRUCT(Hook, (), (token, hookId, runId, since, waiting, webhook))

struct HookList {
  std::vector<Hook> items;
  std::optional<std::string> nextCursor{};
};
BOOST_DESCRIBE_STRUCT(HookList, (), (items, nextCursor))

struct WorkflowInfo {
  std::string name;
  int version = 1;
  Json input;
  Json output;
};
BOOST_DESCRIBE_STRUCT(WorkflowInfo, (), (name, version, input, output))

struct WorkflowList {
  std::vector<WorkflowInfo> items;
  std::optional<std::string> nextCursor{};
};
BOOST_DESCRIBE_STRUCT(WorkflowList, (), (items, nextCursor))

struct WorkflowVersion {
  std::string name;
  int version = 1;
};
BOOST_DESCRIBE_STRUCT(WorkflowVersion, (), (name, version))

struct Node {
  std::string name;
  std::int64_t number = 0;
  std::string since;
  std::string lastHeardOf;
  std::optional<std::string> lease{};
  bool works = true;
  std::int64_t partitions = 0;
  bool isThis = false;
  std::vector<WorkflowVersion> workflows;
};
BOOST_DESCRIBE_STRUCT(Node, (),
                      (name, number, since, lastHeardOf, lease, works, partitions, isThis,
                       workflows))

struct NodeList {
  std::vector<Node> items;
  std::int64_t unownedPartitions = 0;
};
BOOST_DESCRIBE_STRUCT(NodeList, (), (items, unownedPartitions))

struct NewKey {
  std::string name;
  std::vector<Scope> scopes;
  std::optional<std::string> workspace{};
  std::optional<std::string> expiresIn{};
};
BOOST_DESCRIBE_STRUCT(NewKey, (), (name, scopes, workspace, expiresIn))

struct ApiKey {
  std::string id;
  std::string name;
  std::vector<Scope> scopes;
  std::string workspace;
  std::string createdAt;
  std::optional<std::string> expiresAt{};
  std::optional<std::string> key{};
};
BOOST_DESCRIBE_STRUCT(ApiKey, (), (id, name, scopes, workspace, createdAt, expiresAt, key))

struct ApiKeyList {
  std::vector<ApiKey> items;
  std::optional<std::string> nextCursor{};
};
BOOST_DESCRIBE_STRUCT(ApiKeyList, (), (items, nextCursor))

struct Health {
  std::string status;
};
BOOST_DESCRIBE_STRUCT(Health, (), (status))

}  // namespace semel::serve::wire

// NOLINTEND(readability-identifier-naming)
