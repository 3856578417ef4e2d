#include "base/assert.hpp"
#include "store/postgres/held.hpp"

#include <algorithm>

namespace semel::store::postgres {

namespace {

class HeldHooks final : public HookTable {
 public:
  explicit HeldHooks(Held& held) : held_(held) {}

  std::optional<HookKey> insert(std::int64_t workspace, RunKey run, const HookClaim& claim,
                                TimePoint now) override {
    if (find_active(workspace, claim.token)) return std::nullopt;
    const HookKey key = held_.draw(Number::hook);
    HeldHook hook{.row = {.key = key,
                          .workspace = workspace,
                          .run = run,
                          .token = claim.token,
                          .op = claim.op,
                          .shape = claim.shape,
                          .webhook = claim.webhook},
                  .since = now};
    held_.index(key, hook);
    held_.hooks.put(key, std::move(hook));
    return key;
  }

  std::optional<HookRow> active(std::int64_t workspace, const std::string& token) override {
    const auto key = find_active(workspace, token);
    return key ? std::optional{held_.hooks.find(*key)->row} : std::nullopt;
  }

  std::optional<HookRow> active_of(RunKey run, const std::string& op) override {
    for (const HookRow& hook : active_of(run)) {
      if (hook.op == op) return hook;
    }
    return std::nullopt;
  }

  std::vector<HookRow> active_of(RunKey run) override {
    if (held_.presumed_ends.find(run) != nullptr) return {};
    held_.need(run, hooks_part);
    std::vector<HookRow> found;
    for (const HookKey key : keys_of(run)) {
      const HeldHook* hook = held_.hooks.find(key);
      if (hook != nullptr && hook->active) found.push_back(hook->row);
    }
    return found;
  }

  void adopt(const HookRow& hook, const HookClaim& claim) override {
    if (hook.shape != claim.shape) {
      for (const std::int64_t payload : all_payloads(hook.key))
        held_.payloads.edit(payload).checked = false;
    }
    HookRow& row = held_.hooks.edit(hook.key).row;
    row.op = claim.op;
    row.shape = claim.shape;
    row.webhook = claim.webhook;
  }

  void abandon(RunKey run) override {
    for (const HookRow& hook : active_of(run)) held_.hooks.edit(hook.key).row.op.clear();
  }

  void set_fed(HookKey hook, bool fed) override {
    if (held_.hooks.find(hook)->row.fed != fed) held_.hooks.edit(hook).row.fed = fed;
  }

  void release(HookKey hook, bool retakable) override {
    if (retakable || has_payload(hook)) {
      HeldHook& held = held_.hooks.edit(hook);
      held.active = false;
      held.at_end = retakable;
    } else {
      held_.hooks.erase(hook);
    }
  }

  std::optional<std::string> retake(RunKey run) override {
    held_.need(run, hooks_part);
    for (const HookKey key : at_end_of(run)) {
      const HookRow& row = held_.hooks.find(key)->row;
      if (const auto other = find_active(row.workspace, row.token)) {
        const RunRow* owner = held_.row(held_.hooks.find(*other)->row.run);
        SEMEL_ASSERT(owner != nullptr);
        std::string id = owner->id;
        give_back(run);
        return id;
      }
      held_.hooks.edit(key).active = true;
    }
    return std::nullopt;
  }

  void give_back(RunKey run) override {
    for (const HookKey key : at_end_of(run)) held_.hooks.edit(key).active = false;
  }

  void keep(RunKey run) override {
    for (const HookKey key : at_end_of(run)) held_.hooks.edit(key).at_end = false;
  }

  // ---------------------------------------------------------------------------------------------- payloads

  void put(const HookRow& hook, const Deliver& deliver,
           const std::optional<std::string>& start) override {
    held_.need(hook.run, row_part);
    const std::int64_t number = held_.draw(Number::payload);
    PayloadRow row{.hook = hook.key,
                   .run = hook.run,
                   .at = deliver.now,
                   .checked = !hook.shape.empty(),
                   .value = deliver.payload,
                   .start = start};
    held_.index(number, row);
    held_.payloads.put(number, std::move(row));
  }

  bool has_payload(HookKey hook) override { return oldest_of(hook).has_value(); }

  std::optional<PayloadItem> oldest(const HookRow& hook) override {
    const auto number = oldest_of(hook.key);
    if (!number) return std::nullopt;
    const PayloadRow* row = held_.payloads.find(*number);
    return PayloadItem{
        .id = *number, .hook = hook.op, .value = row->value, .checked = row->checked};
  }

  std::vector<PayloadItem> oldest_of_each(RunKey run) override {
    std::vector<PayloadItem> found;
    for (const HookRow& hook : active_of(run)) {
      if (auto payload = oldest(hook)) found.push_back(*std::move(payload));
    }
    std::ranges::sort(found, {}, &PayloadItem::id);
    return found;
  }

  void consume(RunKey run, std::int64_t payload) override {
    const PayloadRow* row = held_.payloads.find(payload);
    if (row == nullptr) {
      const bool was_read =
          held_.payloads.slots().contains(payload) || held_.wants.payloads.contains(payload);
      if (was_read) return;
      held_.more.payloads.insert(payload);
      throw Missing{};
    }
    if (row->run != run) return;
    held_.need(run, hooks_part);
    const HookKey hook = row->hook;
    if (held_.hooks.find(hook) != nullptr) set_fed(hook, false);
    held_.payloads.erase(payload);
  }

  std::optional<Starter> oldest_starter(HookKey hook) override {
    for (const std::int64_t payload : all_payloads(hook)) {
      const PayloadRow* row = held_.payloads.find(payload);
      if (row->start && !row->start->empty())
        return Starter{.payload = payload, .start = *row->start};
    }
    return std::nullopt;
  }

  void spend(std::int64_t payload) override { held_.payloads.edit(payload).start = ""; }

  void move(HookKey from, const HookRow& to, bool checked) override {
    // Those that are there already too: which one is the oldest has to be known.
    static_cast<void>(all_payloads(to.key));
    for (const std::int64_t payload : all_payloads(from)) {
      if (!held_.payloads.find(payload)->start) continue;
      PayloadRow& row = held_.payloads.edit(payload);
      row.hook = to.key;
      row.run = to.run;
      row.checked = row.checked && checked;
      held_.index(payload, row);
    }
  }

  // ---------------------------------------------------------------------------------------------- resume ids

  std::optional<Receipt> receipt(std::int64_t workspace, const Deliver& deliver) override {
    const ResumeName name{workspace, deliver.token, *deliver.resume_id};
    if (!held_.wants.resumes.contains(name)) {
      held_.more.resumes.insert(name);
      throw Missing{};
    }
    const ResumeRow* row = held_.resumes.find(name);
    if (row == nullptr || row->until <= deliver.now) return std::nullopt;
    return row->receipt;
  }

  void remember(std::int64_t workspace, const Deliver& deliver, const Receipt& receipt) override {
    held_.resumes.put({workspace, deliver.token, *deliver.resume_id},
                      {.receipt = receipt, .until = deliver.now + resume_id_kept});
  }

  void remove(RunKey run) override {
    held_.need(run, hooks_part);
    const std::set<HookKey> keys = keys_of(run);
    for (const HookKey key : keys) {
      if (held_.hooks.find(key) == nullptr) continue;
      for (const std::int64_t payload : all_payloads(key)) held_.payloads.erase(payload);
      held_.hooks.erase(key);
    }
  }

 private:
  const std::set<HookKey>& keys_of(RunKey run) { return held_.hooks_by_run[run]; }

  std::vector<HookKey> at_end_of(RunKey run) {
    std::vector<HookKey> found;
    for (const HookKey key : keys_of(run)) {
      const HeldHook* hook = held_.hooks.find(key);
      if (hook != nullptr && hook->at_end) found.push_back(key);
    }
    return found;
  }

  std::optional<HookKey> find_active(std::int64_t workspace, const std::string& token) {
    const Name name{workspace, token};
    if (const auto found = held_.hooks_by_token.find(name); found != held_.hooks_by_token.end()) {
      for (const HookKey key : found->second) {
        const HeldHook* hook = held_.hooks.find(key);
        if (hook != nullptr && hook->active) return key;
      }
    }
    if (!held_.wants.tokens.contains(name)) {
      held_.more.tokens[name] |= row_part | hooks_part;
      throw Missing{};
    }
    return std::nullopt;
  }

  /// Whether it is known of all payloads of the hook; otherwise only the oldest were read.
  bool is_whole(HookKey hook) const {
    const auto read = held_.whole.find(hook);
    return read == held_.whole.end() || read->second;
  }

  /// In order.
  std::vector<std::int64_t> payloads_known(HookKey hook) {
    std::vector<std::int64_t> found;
    for (const std::int64_t payload : held_.payloads_by_hook[hook]) {
      const PayloadRow* row = held_.payloads.find(payload);
      if (row != nullptr && row->hook == hook) found.push_back(payload);
    }
    return found;
  }

  std::vector<std::int64_t> all_payloads(HookKey hook) {
    if (!is_whole(hook)) {
      held_.more.hooks_whole.insert(hook);
      throw Missing{};
    }
    return payloads_known(hook);
  }

  std::optional<std::int64_t> oldest_of(HookKey hook) {
    for (const std::int64_t payload : held_.payloads_by_hook[hook]) {
      const PayloadRow* row = held_.payloads.find(payload);
      if (row == nullptr || row->hook != hook) continue;
      // Put here by this batch, while those between were not read.
      const bool is_new = !held_.payloads.slots().at(payload).is_stored;
      if (is_new && !is_whole(hook)) break;
      return payload;
    }
    if (!is_whole(hook)) {
      held_.more.hooks_whole.insert(hook);
      throw Missing{};
    }
    return std::nullopt;
  }

  Held& held_;
};

}  // namespace

std::unique_ptr<HookTable> make_hook_table(Held& held) { return std::make_unique<HeldHooks>(held); }

}  // namespace semel::store::postgres
