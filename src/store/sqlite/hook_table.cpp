#include "store/sqlite/hook_table.hpp"

#include <algorithm>

namespace semel::store::sqlite {

HookRow HookTable::read(const Rows& rows) {
  return {.key = rows.integer(0),
          .workspace = rows.integer(1),
          .run = rows.integer(2),
          .token = rows.text(3),
          .op = rows.text(4),
          .shape = rows.text(5),
          .webhook = rows.integer(6) != 0,
          .fed = rows.integer(7) != 0};
}

std::optional<HookKey> HookTable::insert(std::int64_t workspace, RunKey run, const HookClaim& claim,
                                         TimePoint now) {
  Rows rows = insert_.select(workspace, run, claim.token, claim.op, claim.shape,
                             claim.webhook ? 1 : 0, now);
  if (!rows.next()) return std::nullopt;
  open_runs_.involve(run);
  return rows.integer(0);
}

std::optional<HookRow> HookTable::active(std::int64_t workspace, const std::string& token) {
  Rows rows = active_.select(workspace, token);
  return rows.next() ? std::optional{read(rows)} : std::nullopt;
}

std::optional<HookRow> HookTable::active_of(RunKey run, const std::string& op) {
  Rows rows = active_op_.select(run, op);
  return rows.next() ? std::optional{read(rows)} : std::nullopt;
}

std::vector<HookRow> HookTable::active_of(RunKey run) {
  std::vector<HookRow> found;
  Rows rows = active_run_.select(run);
  while (rows.next()) found.push_back(read(rows));
  return found;
}

void HookTable::adopt(const HookRow& hook, const HookClaim& claim) {
  adopt_.run(hook.key, claim.op, claim.shape, claim.webhook ? 1 : 0);
  if (hook.shape != claim.shape) uncheck_.run(hook.key);
}

void HookTable::release(HookKey hook, bool retakable) {
  if (retakable || has_payload(hook)) {
    deactivate_.run(hook, retakable ? 1 : 0);
  } else {
    delete_.run(hook);
  }
}

std::optional<std::string> HookTable::retake(RunKey run) {
  std::vector<HookRow> had;
  {
    Rows rows = at_end_.select(run);
    while (rows.next()) had.push_back(read(rows));
  }
  for (const HookRow& hook : had) {
    if (activate_.run(hook.key) == 1) continue;
    give_back(run);
    Rows rows = owner_.select(active(hook.workspace, hook.token)->run);
    return rows.next() ? rows.text(0) : std::string{};
  }
  return std::nullopt;
}

void HookTable::put(const HookRow& hook, const Deliver& deliver,
                    const std::optional<std::string>& start) {
  put_.run(hook.key, hook.run, deliver.payload, hook.shape.empty() ? 0 : 1, deliver.now, start);
}

std::optional<PayloadItem> HookTable::oldest(const HookRow& hook) {
  Rows rows = oldest_.select(hook.key);
  if (!rows.next()) return std::nullopt;
  return PayloadItem{.id = rows.integer(0),
                     .hook = hook.op,
                     .value = rows.text(1),
                     .checked = rows.integer(2) != 0};
}

std::vector<PayloadItem> HookTable::oldest_of_each(RunKey run) {
  std::vector<PayloadItem> found;
  for (const HookRow& hook : active_of(run)) {
    if (auto payload = oldest(hook)) found.push_back(*std::move(payload));
  }
  std::ranges::sort(found, {}, &PayloadItem::id);
  return found;
}

void HookTable::consume(RunKey run, std::int64_t payload) {
  unfeed_.run(run, payload);
  consume_.run(run, payload);
}

std::optional<HookTable::Starter> HookTable::oldest_starter(HookKey hook) {
  Rows rows = oldest_starter_.select(hook);
  if (!rows.next()) return std::nullopt;
  return Starter{.payload = rows.integer(0), .start = rows.text(1)};
}

void HookTable::move(HookKey from, const HookRow& to, bool checked) {
  move_.run(from, to.key, to.run, checked ? 1 : 0);
}

std::optional<HookTable::Receipt> HookTable::receipt(std::int64_t workspace,
                                                     const Deliver& deliver) {
  Rows rows = receipt_.select(workspace, deliver.token, *deliver.resume_id, deliver.now);
  if (!rows.next()) return std::nullopt;
  return Receipt{.fingerprint = rows.text(0),
                 .run_id = rows.text(1),
                 .hook = rows.integer(2),
                 .started = rows.integer(3) != 0};
}

void HookTable::remember(std::int64_t workspace, const Deliver& deliver, const Receipt& receipt) {
  remember_.run(workspace, deliver.token, *deliver.resume_id, Blob{receipt.fingerprint},
                receipt.run_id, receipt.hook, receipt.started ? 1 : 0,
                deliver.now + resume_id_kept);
}

void HookTable::remove(RunKey run) {
  remove_hooks_.run(run);
  remove_payloads_.run(run);
}

}  // namespace semel::store::sqlite
