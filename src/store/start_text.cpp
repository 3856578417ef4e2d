#include "store/start_text.hpp"

#include <semel/value.hpp>

namespace semel::store {

namespace {

using Nanoseconds = std::chrono::nanoseconds;

struct StartText {
  RunKey key = 0;
  std::int32_t partition = 0;
  std::string instance;
  std::string workflow;
  std::int32_t code_version = 1;
  std::string input;
  std::optional<std::string> idempotency_key;
  Nanoseconds key_ttl{};
  Bytes fingerprint;
  bool check_fingerprint = true;
  std::uint8_t on_running = 0;
  std::uint8_t after_done = 0;
  std::optional<Nanoseconds> delay;
  std::optional<Nanoseconds> deadline;
  std::map<std::string, std::string> attributes;
  Nanoseconds retention{};
  std::string shape;
};
BOOST_DESCRIBE_STRUCT(StartText, (),
                      (key, partition, instance, workflow, code_version, input, idempotency_key,
                       key_ttl, fingerprint, check_fingerprint, on_running, after_done, delay,
                       deadline, attributes, retention, shape))

std::optional<Nanoseconds> after(const std::optional<TimePoint>& time, TimePoint begin) {
  if (!time) return std::nullopt;
  return std::chrono::duration_cast<Nanoseconds>(*time - begin);
}

std::optional<TimePoint> at(const std::optional<Nanoseconds>& after, TimePoint begin) {
  if (!after) return std::nullopt;
  return begin + std::chrono::duration_cast<TimePoint::duration>(*after);
}

std::optional<base::Fault> read(std::string_view json, StartText& text) {
  const auto misfit = value::try_decode(json, text, value::Mode::journal);
  if (!misfit) return std::nullopt;
  return base::Fault{base::Errc::corrupt,
                     "a payload's start cannot be read: " + misfit->path + ": " + misfit->message};
}

}  // namespace

std::string encode_start(const NewRun& run) {
  StartText text{.key = run.key,
                 .partition = run.partition,
                 .instance = run.instance,
                 .workflow = run.workflow,
                 .code_version = run.code_version,
                 .input = run.input,
                 .idempotency_key = run.idempotency_key,
                 .key_ttl = run.key_ttl,
                 .check_fingerprint = run.check_fingerprint,
                 .on_running = static_cast<std::uint8_t>(run.on_running),
                 .after_done = static_cast<std::uint8_t>(run.after_done),
                 .delay = after(run.start_at, run.created_at),
                 .deadline = after(run.deadline, run.created_at),
                 .attributes = run.attributes,
                 .retention = run.retention};
  for (const char byte : run.fingerprint) text.fingerprint.push_back(std::byte(byte));
  if (!run.hooks.empty()) text.shape = run.hooks.front().shape;
  return value::encode(text);
}

base::Result<std::string> moved_start(std::string_view json, RunKey shift,
                                      std::int32_t partitions) {
  StartText text;
  if (auto unreadable = read(json, text)) return *std::move(unreadable);
  text.key += shift;
  text.partition = static_cast<std::int32_t>(text.key % partitions);
  return value::encode(text);
}

base::Result<NewRun> decode_start(std::string_view json, const std::string& workspace,
                                  const std::string& token, TimePoint now) {
  StartText text;
  if (auto unreadable = read(json, text)) return *std::move(unreadable);
  NewRun run{.key = text.key,
             .workspace = workspace,
             .partition = text.partition,
             .id = text.instance,
             .instance = text.instance,
             .workflow = text.workflow,
             .code_version = text.code_version,
             .input = text.input,
             .created_at = now,
             .idempotency_key = text.idempotency_key,
             .key_ttl = text.key_ttl,
             .check_fingerprint = text.check_fingerprint,
             .on_running = static_cast<OnRunning>(text.on_running),
             .after_done = static_cast<AfterDone>(text.after_done),
             .start_at = at(text.delay, now),
             .deadline = at(text.deadline, now),
             .attributes = text.attributes,
             .retention = text.retention,
             .hooks = {{.token = token, .shape = text.shape}}};
  for (const std::byte byte : text.fingerprint) run.fingerprint.push_back(static_cast<char>(byte));
  return run;
}

NewRun started_later(NewRun run, TimePoint now) {
  run.id = run.instance;
  run.chosen_id = false;
  run.parent.reset();
  for (HookClaim& claim : run.hooks) claim.webhook = false;
  run.start_at = at(after(run.start_at, run.created_at), now);
  run.deadline = at(after(run.deadline, run.created_at), now);
  run.created_at = now;
  return run;
}

}  // namespace semel::store
