// API keys: who may ask, and for which workspace. All of them are in memory, as they are in the store: looking one up does
// not block, and a revoked one is refused from the commit on that revoked it.
//
// Where only this process has the store, that commit changes what is in memory. Where others have it, too, each change of
// the keys raises a number in the store, and `refresh` reads them anew where it was raised: who asks is looked up once it
// has been called, after the request came.
#pragma once

#include "base/random.hpp"
#include "serve/action.hpp"
#include "store/key_reader.hpp"

#include <semel/http.hpp>

#include <boost/json/object.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace semel::serve {

/// Scopes do not nest: each is listed.
struct Scopes {
  bool read = false;
  bool write = false;
  bool admin = false;

  friend bool operator==(const Scopes&, const Scopes&) = default;
};

enum class Needs : std::uint8_t { nothing, read, write, admin };

struct ApiKey {
  std::string id;
  std::string workspace;
  std::string name;
  Scopes scopes;
  std::string digest;  ///< SHA-256 of the key
  TimePoint created_at{};
  std::optional<TimePoint> expires_at;
  bool is_revoked = false;

  bool is_live(TimePoint now) const { return !is_revoked && (!expires_at || now < *expires_at); }
};

/// Who asks.
struct Caller {
  std::string actor;
  std::string workspace;
  Scopes scopes;
};

/// What a new key is to be.
struct KeyWish {
  std::string name;
  Scopes scopes;
  std::string workspace;
  std::optional<Millis> expires_in;
};

class Keyring {
 public:
  /// `others`: where other processes change keys, too.
  explicit Keyring(std::shared_ptr<store::KeyReader> others = nullptr)
      : others_(std::move(others)) {}

  Keyring(const Keyring&) = delete;
  Keyring& operator=(const Keyring&) = delete;

  /// Reads what the store has.
  void load(store::UnitOfWork& unit);

  /// What is in memory may be old: `refresh` comes before every look.
  bool is_shared() const { return others_ != nullptr; }

  /// Of a shared one: as the store is now. Blocks; one thread at a time. False: the store cannot be read.
  bool refresh();

  /// No key was ever made: every caller is admin of "default".
  bool is_open() const;

  /// By the Authorization header's value.
  std::variant<Caller, http::Refusal> find(std::optional<std::string_view> authorization,
                                           TimePoint now) const;

  /// Those of a workspace that were not revoked, in the order they were made; of all where it is "default".
  std::vector<ApiKey> list(std::string_view workspace) const;

  /// Effects; both leave a line in the audit log. Throw ProblemError.
  http::Response create(Unit& unit, const Caller& caller, const KeyWish& wish);
  http::Response revoke(Unit& unit, const Caller& caller, const std::string& id);

 private:
  void take_over(std::vector<ApiKey> keys);

  const std::shared_ptr<store::KeyReader> others_;
  std::optional<std::int64_t> version_;  ///< of what `refresh` has read
  mutable std::shared_mutex mutex_;
  std::vector<ApiKey> keys_;                           ///< in the order they were made
  std::map<std::string, std::size_t> by_digest_half_;  ///< the first half of a digest
};

/// Without its secret.
boost::json::object view(const ApiKey& key);

}  // namespace semel::serve
