// The store without the engine: the commands of the same runs, one after the other. What lies between this and the raw
// limit are guards, indexes and the ends of runs; what lies between this and the engine is the loop.
#pragma once

#include "app/bench_raw.hpp"
#include "store/store.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace semel::app::bench {

class StoreAlone {
 public:
  static StoreAlone on_sqlite(const std::filesystem::path& file, EntryBytes bytes);
  static StoreAlone on_postgres(const std::string& url, EntryBytes bytes);

  /// So many runs at a time, each with one command in every batch.
  Rate group_commits(int runs, int steps, Seconds duration);

 private:
  StoreAlone(std::unique_ptr<store::Store> store, EntryBytes bytes);

  struct Slot {
    store::RunKey run = 0;
    store::Seq next = 0;
  };

  store::Command next_command(Slot& slot, int steps);
  std::vector<store::Answer> execute(const std::vector<store::Command>& batch);

  std::unique_ptr<store::Store> store_;
  EntryBytes bytes_;
  store::RunKey next_key_ = 0;
};

}  // namespace semel::app::bench
