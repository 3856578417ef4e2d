#include "store/sqlite/key_eras.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace semel::store::sqlite {

namespace {

/// A key of an older era that comes again is looked for in each of them: with so many, the next ones are twice as large.
constexpr std::int64_t eras_of_a_size = 32;
constexpr std::int64_t doublings_max = 16;

std::size_t hash_of(std::int64_t workspace, std::string_view key) {
  return std::hash<std::string_view>{}(key) +
         static_cast<std::size_t>(workspace) * 0x9E3779B97F4A7C15ULL;
}

/// In slices, so that a connection of its own keeps nobody from beginning the log anew.
void scan(Database& database, const KnownKeys::Visit& visit) {
  constexpr int slice = 1000;
  Statement keys{
      database,
      "SELECT key_era, workspace, idempotency_key FROM semel_run INDEXED BY semel_run_key"
      " WHERE idempotency_key IS NOT NULL AND holds_key = 1"
      " AND (key_era, workspace, idempotency_key) > (?1, ?2, ?3)"
      " ORDER BY key_era, workspace, idempotency_key LIMIT ?4"};
  std::int64_t era = -1;
  std::int64_t workspace = 0;
  std::string key;
  for (int count = slice; count == slice;) {
    const std::string after = key;
    count = 0;
    for (Rows rows = keys.select(era, workspace, after, slice); rows.next(); ++count) {
      era = rows.integer(0);
      workspace = rows.integer(1);
      key = rows.text(2);
      if (!visit(hash_of(workspace, key))) return;
    }
  }
}

}  // namespace

void KeyEras::open(std::int64_t keys_per_era) {
  keys_per_era_ = keys_per_era;
  if (database_.in_memory()) {
    known_.begin_anew([this](const KnownKeys::Visit& visit) { scan(database_, visit); },
                      KnownKeys::Fill::at_once);
    return;
  }
  Statement any{database_, "SELECT 1 FROM semel_run WHERE idempotency_key IS NOT NULL LIMIT 1"};
  known_.begin_anew(
      [path = database_.path()](const KnownKeys::Visit& visit) {
        scan(*Database::open(path, Database::Access::read, {}), visit);
      },
      any.any() ? KnownKeys::Fill::in_background : KnownKeys::Fill::empty);
}

void KeyEras::look_up() {
  if (std::exchange(is_known_, true)) return;
  const std::int64_t known_era = era_;
  {
    Rows rows = eras_.select();
    rows.next();
    era_ = rows.integer(0);
    count_ = rows.integer(1);
  }
  // To count is to read them all.
  if (era_ == known_era) return;
  Rows rows = used_of_.select(era_, keys_max());
  rows.next();
  used_ = rows.integer(0);
}

std::int64_t KeyEras::keys_max() const {
  return keys_per_era_ << std::min(count_ / eras_of_a_size, doublings_max);
}

std::int64_t KeyEras::newest() {
  look_up();
  if (count_ == 0 || used_ >= keys_max()) begin_next();
  return era_;
}

bool KeyEras::may_be_older(std::int64_t workspace, std::string_view key) {
  return count_ > 1 && known_.may_have(hash_of(workspace, key));
}

void KeyEras::begin_next() {
  drop_empty_.run();
  begin_.run(++era_);
  used_ = 0;
  Rows rows = eras_.select();
  rows.next();
  count_ = rows.integer(1);
}

void KeyEras::took(std::int64_t workspace, std::string_view key) {
  known_.add(hash_of(workspace, key));
  ++used_;
}

}  // namespace semel::store::sqlite
