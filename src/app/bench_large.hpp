// Tables as they are after years: filled with copies of finished runs, by plain SQL.
#pragma once

#include "app/bench_engine.hpp"
#include "app/cli_progress.hpp"

#include <cstdint>
#include <string>

namespace semel::app::bench {

/// Copies of one finished run, keys reserved for them.
struct Copies {
  store::RunKey model = 0;  ///< the run that is copied, entries and all
  store::RunKey first = 0;  ///< the first of the keys
  std::int64_t count = 0;
  TimePoint ended_first{};  ///< they ended one after the other, from then
  TimePoint ended_last{};   ///< to then
};

/// Fill a store that nobody has open.
void fill_sqlite(const std::filesystem::path& file, const Copies& copies, Progress& progress);
void fill_postgres(const std::string& url, const Copies& copies, Progress& progress);

/// What a database knows of its tables is as it would be had they grown over years.
void settle_postgres(const std::string& url);

}  // namespace semel::app::bench
