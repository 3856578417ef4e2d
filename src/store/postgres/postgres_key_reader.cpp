#include "store/postgres/postgres_key_reader.hpp"

#include "store/postgres/connection.hpp"

#include <utility>

namespace semel::store::postgres {

namespace {

/// Whoever asks over HTTP waits for it: better told soon that the store is out of reach.
constexpr std::chrono::milliseconds patience{5'000};

constexpr const char* get_version = "SELECT next FROM semel.counter WHERE name = 'api-keys'";
constexpr const char* get_keys =
    "SELECT id, workspace, name, scopes, digest, created_at, expires_at, revoked_at"
    " FROM semel.api_key ORDER BY number";

class PostgresKeyReader final : public KeyReader {
 public:
  explicit PostgresKeyReader(std::string url) : url_(std::move(url)) {}

  base::Result<std::optional<Keys>> changed_since(std::optional<std::int64_t> version) override {
    try {
      const bool was_connected = connection_ && !connection_->is_lost();
      try {
        return read(version);
      } catch (const store::Failed&) {
        // A connection that has rested for long may be gone without anybody's having noticed.
        if (!was_connected || !connection_->is_lost()) throw;
      }
      return read(version);
    } catch (const store::Failed& failed) {
      return failed.fault();
    }
  }

 private:
  std::optional<Keys> read(std::optional<std::int64_t> version) {
    if (!connection_ || connection_->is_lost())
      connection_ = std::make_unique<Connection>(
          ConnectionOptions{.url = url_, .patience = patience, .read_only = true});
    Keys keys;
    Pipeline look{*connection_};
    look.add(get_version, {}, [&](const Rows& rows) {
      if (rows.size() > 0) keys.version = rows.integer(0, 0);
    });
    look.run();
    if (version == keys.version) return std::nullopt;
    // They may be newer than the version by now: then the next look finds another one, and reads them once more.
    Pipeline reading{*connection_};
    reading.add(get_keys, {}, [&](const Rows& rows) {
      for (int i = 0; i < rows.size(); ++i) {
        keys.rows.push_back({.id = rows.text(i, 0),
                             .workspace = rows.text(i, 1),
                             .name = rows.text(i, 2),
                             .scopes = rows.text(i, 3),
                             .digest = rows.text(i, 4),
                             .created_at = rows.time(i, 5),
                             .expires_at = rows.optional_time(i, 6),
                             .is_revoked = !rows.is_null(i, 7)});
      }
    });
    reading.run();
    return keys;
  }

  std::string url_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace

std::unique_ptr<KeyReader> make_key_reader(std::string url) {
  return std::make_unique<PostgresKeyReader>(std::move(url));
}

}  // namespace semel::store::postgres
