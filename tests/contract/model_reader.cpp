#include "tests/contract/model_store.hpp"

#include <algorithm>

namespace semel::store {

namespace {

class ModelReader final : public Reader {
 public:
  explicit ModelReader(std::shared_ptr<Model> model) : model_(std::move(model)) {}

  base::Result<std::optional<RunRecord>> find(std::string_view workspace,
                                              std::string_view id) override {
    std::optional<RunRecord> found;
    for (const auto& [key, run] : model_->runs) {
      if (run.made.workspace == workspace && run.made.id == id) found = record_of(run);
    }
    return found;
  }

  base::Result<std::vector<RunRecord>> list(const ListFilter& filter) override {
    std::vector<RunRecord> found;
    for (const auto& [key, run] : model_->runs) {
      RunRecord record = record_of(run);
      if (fits(record, filter)) found.push_back(std::move(record));
    }
    std::ranges::sort(found, std::greater{}, [](const RunRecord& record) {
      return std::pair{record.created_at, record.id};
    });
    if (found.size() > filter.limit) found.resize(filter.limit);
    return found;
  }

  base::Result<std::vector<StoredEntry>> journal(RunKey key, Seq from, std::size_t limit) override {
    std::vector<StoredEntry> found;
    const auto run = model_->runs.find(key);
    if (run == model_->runs.end()) return found;
    for (Seq seq = from; seq < run->second.entries.size() && found.size() < limit; ++seq) {
      const auto& [at, bytes] = run->second.entries[seq];
      found.push_back({.seq = seq, .at = at, .bytes = bytes});
    }
    return found;
  }

  base::Result<std::vector<Timer>> timers(RunKey key) override {
    std::vector<Timer> found;
    for (const auto& [timer, due] : model_->timers) {
      const auto& [run, kind, op] = timer;
      if (run == key) found.push_back({.run = run, .kind = kind, .op = op, .due = due});
    }
    std::ranges::sort(found, std::less{}, [](const Timer& timer) {
      return std::tuple{timer.due, timer.kind, timer.op};
    });
    return found;
  }

  base::Result<std::optional<HookRecord>> hook(std::string_view workspace,
                                               std::string_view token) override {
    std::optional<HookRecord> found;
    for (const auto& [id, hook] : model_->hooks) {
      const Model::Run& run = model_->runs.at(hook.run);
      if (!hook.active || hook.claim.token != token || run.made.workspace != workspace) continue;
      found = hook_record(id);
    }
    return found;
  }

  base::Result<std::vector<HookRecord>> hooks(const HookFilter& filter) override {
    std::vector<HookRecord> found;
    for (auto hook = model_->hooks.rbegin(); hook != model_->hooks.rend(); ++hook) {
      const Model::Run& run = model_->runs.at(hook->second.run);
      if (!hook->second.active || run.made.workspace != filter.workspace) continue;
      if (filter.run_id && run.made.id != *filter.run_id) continue;
      if (filter.before && hook->first >= *filter.before) continue;
      if (found.size() < filter.limit) found.push_back(hook_record(hook->first));
    }
    return found;
  }

  base::Result<std::optional<PublicHook>> public_hook(std::string_view token) override {
    std::optional<PublicHook> found;
    for (const auto& [id, hook] : model_->hooks) {
      if (found || !hook.active || !hook.claim.webhook || hook.claim.token != token) continue;
      found = PublicHook{model_->runs.at(hook.run).made.workspace, hook_record(id)};
    }
    return found;
  }

  base::Result<std::vector<Undelivered>> undelivered(RunKey key) override {
    std::vector<Undelivered> found;
    for (const auto& [id, payload] : model_->payloads) {
      const Model::Hook& hook = model_->hooks.at(payload.hook);
      if (hook.run != key || hook.active) continue;
      found.push_back(
          {.id = id, .token = hook.claim.token, .value = payload.value, .at = payload.at});
    }
    return found;
  }

  base::Result<std::vector<Orphan>> orphans(std::size_t limit) override {
    std::vector<Orphan> found;
    for (const auto& [key, run] : model_->runs) {
      if (found.size() < limit && is_orphan(key, run)) {
        found.push_back({.workspace = run.made.workspace, .id = run.made.id, .status = run.status});
      }
    }
    return found;
  }

 private:
  HookRecord hook_record(std::int64_t id) const {
    const Model::Hook& hook = model_->hooks.at(id);
    HookRecord record{.token = hook.claim.token,
                      .id = std::to_string(id),
                      .run_id = model_->runs.at(hook.run).made.id,
                      .op = hook.claim.op,
                      .shape = hook.claim.shape,
                      .webhook = hook.claim.webhook,
                      .since = hook.since};
    for (const auto& [number, payload] : model_->payloads) record.waiting += payload.hook == id;
    return record;
  }

  static bool fits(const RunRecord& record, const ListFilter& filter) {
    for (const auto& [name, value] : filter.attributes) {
      const auto attribute = record.attributes.find(name);
      if (attribute == record.attributes.end() || attribute->second != value) return false;
    }
    return record.workspace == filter.workspace &&
           (!filter.workflow || record.workflow == *filter.workflow) &&
           (!filter.status || record.status == *filter.status) &&
           (!filter.idempotency_key || record.idempotency_key == filter.idempotency_key) &&
           (!filter.since || record.created_at >= *filter.since) &&
           (!filter.until || record.created_at < *filter.until) &&
           (!filter.before || std::pair{record.created_at, record.id} < *filter.before);
  }

  bool is_orphan(RunKey key, const Model::Run& run) const {
    if (run.status != Status::pending && run.status != Status::waiting) return false;
    for (const auto& [timer, due] : model_->timers) {
      const auto& [of, kind, op] = timer;
      if (of == key && (run.status == Status::waiting || kind == TimerKind::start)) return false;
    }
    if (run.status == Status::pending) return true;
    for (const auto& [id, item] : model_->inbox) {
      if (item.run == key) return false;
    }
    for (const auto& [id, hook] : model_->hooks) {
      if (hook.run == key && hook.active) return false;
    }
    for (const auto& [operation, target] : model_->waits) {
      if (operation.first != key || target == key) continue;
      if (!is_end(model_->runs.at(target).status)) return false;
    }
    return true;
  }

  std::shared_ptr<Model> model_;
};

}  // namespace

std::unique_ptr<Reader> make_model_reader(std::shared_ptr<Model> model) {
  return std::make_unique<ModelReader>(std::move(model));
}

}  // namespace semel::store
