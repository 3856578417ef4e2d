#include "serve/keyring.hpp"

#include "base/sha256.hpp"
#include "serve/text.hpp"
#include "serve/view.hpp"

#include <boost/json.hpp>
#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace semel::serve {

namespace {

namespace json = boost::json;

constexpr std::string_view prefix = "sml_";
constexpr std::string_view open_actor = "anyone";
constexpr std::string_view home = "default";
constexpr std::size_t digest_bytes = 32;

std::int64_t nanoseconds(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

TimePoint time_of(std::int64_t count) {
  return TimePoint{
      std::chrono::duration_cast<TimePoint::duration>(std::chrono::nanoseconds{count})};
}

std::string words_of(const Scopes& scopes) {
  std::string words;
  for (const auto& [has, word] : {std::pair{scopes.read, "read"}, std::pair{scopes.write, "write"},
                                  std::pair{scopes.admin, "admin"}}) {
    if (has) words += std::string(words.empty() ? "" : " ") + word;
  }
  return words;
}

Scopes scopes_of(const std::string& words) {
  const auto has = [&](const char* word) { return words.find(word) != std::string::npos; };
  return {.read = has("read"), .write = has("write"), .admin = has("admin")};
}

sql::Value bytes_of(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(data, data + text.size());
}

std::string random_bytes(std::size_t count) {
  base::SystemRandom random;
  std::string bytes;
  while (bytes.size() < count) {
    const std::uint64_t word = random.next();
    bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  bytes.resize(count);
  return bytes;
}

std::string new_id(TimePoint now) {
  base::SystemRandom random;
  return "key_" + base::IdSource(random).next(now);
}

void run(store::UnitOfWork& unit, std::string_view sql, const std::vector<sql::Value>& values) {
  unit.run_own(sql, values, [](const sql::Row&) {});
}

void audit(store::UnitOfWork& unit, const Caller& caller, const std::string& action,
           const std::string& subject) {
  run(unit,
      "INSERT INTO semel_audit (at, workspace, actor, action, subject) VALUES (?1, ?2, ?3, ?4, ?5)",
      {nanoseconds(unit.now()), caller.workspace, caller.actor, action, subject});
}

/// Two who change keys at the same time do so one after the other: what the first has done, the second sees. Others learn by
/// the number that there is something to read.
void begin_change(store::UnitOfWork& unit) {
  run(unit,
      "INSERT INTO semel_counter AS c (name, next) VALUES ('api-keys', 1)"
      " ON CONFLICT (name) DO UPDATE SET next = c.next + 1",
      {});
}

ApiKey key_in(const sql::Row& row) {
  const auto text = [&](std::size_t i) { return std::get<std::string>(row.values[i]); };
  const auto time = [&](std::size_t i) -> std::optional<TimePoint> {
    const auto* count = std::get_if<std::int64_t>(&row.values[i]);
    return count == nullptr ? std::nullopt : std::optional(time_of(*count));
  };
  const auto& digest = std::get<Bytes>(row.values[4]);
  return {.id = text(0),
          .workspace = text(1),
          .name = text(2),
          .scopes = scopes_of(text(3)),
          .digest = std::string(reinterpret_cast<const char*>(digest.data()), digest.size()),
          .created_at = time(5).value_or(TimePoint{}),
          .expires_at = time(6),
          .is_revoked = time(7).has_value()};
}

std::vector<ApiKey> keys_in(store::UnitOfWork& unit) {
  std::vector<ApiKey> keys;
  unit.run_own(
      "SELECT id, workspace, name, scopes, digest, created_at, expires_at, revoked_at"
      " FROM semel_api_key ORDER BY number",
      {}, [&](const sql::Row& row) { keys.push_back(key_in(row)); });
  return keys;
}

http::ProblemError no_such_key(const std::string& id) {
  return {404, "API_KEY_NOT_FOUND", "there is no key " + id};
}

std::string_view without_scheme(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  const bool is_bearer = authorization.size() > scheme.size() &&
                         http::same_name(authorization.substr(0, scheme.size()), scheme);
  return is_bearer ? authorization.substr(scheme.size()) : std::string_view{};
}

}  // namespace

json::object view(const ApiKey& key) {
  json::array scopes;
  if (key.scopes.read) scopes.emplace_back("read");
  if (key.scopes.write) scopes.emplace_back("write");
  if (key.scopes.admin) scopes.emplace_back("admin");
  json::object object{{"id", key.id},
                      {"name", key.name},
                      {"scopes", std::move(scopes)},
                      {"workspace", key.workspace},
                      {"createdAt", time_text(key.created_at)}};
  if (key.expires_at) object["expiresAt"] = time_text(*key.expires_at);
  return object;
}

void Keyring::load(store::UnitOfWork& unit) { take_over(keys_in(unit)); }

bool Keyring::refresh() {
  auto read = others_->changed_since(version_);
  if (!read) return false;
  if (!*read) return true;
  std::vector<ApiKey> keys;
  for (store::ApiKeyRow& row : (*read)->rows) {
    keys.push_back({.id = std::move(row.id),
                    .workspace = std::move(row.workspace),
                    .name = std::move(row.name),
                    .scopes = scopes_of(row.scopes),
                    .digest = std::move(row.digest),
                    .created_at = row.created_at,
                    .expires_at = row.expires_at,
                    .is_revoked = row.is_revoked});
  }
  take_over(std::move(keys));
  version_ = (*read)->version;
  return true;
}

void Keyring::take_over(std::vector<ApiKey> keys) {
  const std::unique_lock lock(mutex_);
  keys_ = std::move(keys);
  by_digest_half_.clear();
  for (std::size_t i = 0; i < keys_.size(); ++i)
    by_digest_half_.emplace(keys_[i].digest.substr(0, digest_bytes / 2), i);
}

bool Keyring::is_open() const {
  const std::shared_lock lock(mutex_);
  return keys_.empty();
}

std::variant<Caller, http::Refusal> Keyring::find(std::optional<std::string_view> authorization,
                                                  TimePoint now) const {
  const std::shared_lock lock(mutex_);
  if (keys_.empty()) return Caller{std::string(open_actor), std::string(home), {true, true, true}};
  http::Refusal unknown{"UNAUTHENTICATED", "this needs a valid key: Authorization: Bearer sml_…"};
  const std::string_view key = without_scheme(authorization.value_or(""));
  if (!key.starts_with(prefix)) return unknown;
  // What is compared is a digest: how long that takes says nothing about the key. The rest of it all the same in constant
  // time.
  const std::string digest = base::sha256(key);
  const auto found = by_digest_half_.find(digest.substr(0, digest_bytes / 2));
  if (found == by_digest_half_.end()) return unknown;
  const ApiKey& known = keys_[found->second];
  const bool is_it = CRYPTO_memcmp(known.digest.data(), digest.data(), digest_bytes) == 0;
  if (!is_it || !known.is_live(now)) return unknown;
  return Caller{known.id, known.workspace, known.scopes};
}

std::vector<ApiKey> Keyring::list(std::string_view workspace) const {
  const std::shared_lock lock(mutex_);
  std::vector<ApiKey> keys;
  std::ranges::copy_if(keys_, std::back_inserter(keys), [&](const ApiKey& key) {
    return !key.is_revoked && (workspace == home || key.workspace == workspace);
  });
  return keys;
}

http::Response Keyring::create(Unit& unit, const Caller& caller, const KeyWish& wish) {
  begin_change(unit.store);
  const std::vector<ApiKey> there = keys_in(unit.store);
  if (there.empty() && (!wish.scopes.admin || wish.workspace != home)) {
    throw http::ProblemError(422, "VALIDATION_ERROR",
                             "/scopes: the first key must be one of an admin of the workspace "
                             "default: it ends open mode",
                             {{"field", "/scopes"}});
  }
  // Somebody else was first, and nobody is anyone any more.
  if (!there.empty() && caller.actor == open_actor)
    throw http::ProblemError(401, "UNAUTHENTICATED", "this needs a key by now");
  const TimePoint now = unit.store.now();
  const std::string secret = std::string(prefix) + base64url(random_bytes(32));
  ApiKey key{.id = new_id(now),
             .workspace = wish.workspace,
             .name = wish.name,
             .scopes = wish.scopes,
             .digest = base::sha256(secret),
             .created_at = now,
             .expires_at = {}};
  if (wish.expires_in) key.expires_at = now + *wish.expires_in;
  run(unit.store,
      "INSERT INTO semel_api_key (id, workspace, name, scopes, digest, created_at, expires_at)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
      {key.id, key.workspace, key.name, words_of(key.scopes), bytes_of(key.digest),
       nanoseconds(now), key.expires_at ? sql::Value(nanoseconds(*key.expires_at)) : sql::Value{}});
  audit(unit.store, caller, "api-key.create", key.id);
  if (!is_shared()) {
    unit.after_commit = [this, key] {
      const std::unique_lock lock(mutex_);
      by_digest_half_.emplace(key.digest.substr(0, digest_bytes / 2), keys_.size());
      keys_.push_back(key);
    };
  }
  json::object body = view(key);
  body["key"] = secret;
  return json_answer(201, body);
}

http::Response Keyring::revoke(Unit& unit, const Caller& caller, const std::string& id) {
  begin_change(unit.store);
  const std::vector<ApiKey> there = keys_in(unit.store);
  const TimePoint now = unit.store.now();
  const auto key = std::ranges::find(there, id, &ApiKey::id);
  const bool is_visible = key != there.end() && !key->is_revoked &&
                          (caller.workspace == home || caller.workspace == key->workspace);
  if (!is_visible) throw no_such_key(id);
  const auto is_master = [&](const ApiKey& each) {
    return each.scopes.admin && each.workspace == home && each.is_live(now);
  };
  if (is_master(*key) && std::ranges::count_if(there, is_master) == 1) {
    throw http::ProblemError(409, "LAST_ADMIN_KEY",
                             "this is the last live key of an admin: make another one first");
  }
  run(unit.store, "UPDATE semel_api_key SET revoked_at = ?2 WHERE id = ?1", {id, nanoseconds(now)});
  audit(unit.store, caller, "api-key.revoke", id);
  if (!is_shared()) {
    unit.after_commit = [this, id] {
      const std::unique_lock lock(mutex_);
      const auto revoked = std::ranges::find(keys_, id, &ApiKey::id);
      if (revoked != keys_.end()) revoked->is_revoked = true;
    };
  }
  return {204, {}, ""};
}

}  // namespace semel::serve
