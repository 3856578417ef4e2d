// What was seen from outside while programs were killed, against what their store has in the end.
#pragma once

#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace semel::process {

/// What the ledger has of one step: its attempts in the order in which their bodies began.
struct Effects {
  std::vector<int> begun;
  std::set<int> ended;
};

struct Ack {
  std::string run_id;
  std::int64_t n = 0;
};

struct Books {
  std::map<std::string, Effects> effects;        ///< by step id
  std::map<std::string, std::vector<Ack>> acks;  ///< by key
  std::vector<std::string> dead;                 ///< run ids
};

Books read_books(const Ledger& ledger);

/// Everything there is in the end, against everything that was seen from outside.
struct Verdict {
  std::vector<std::string> problems;
  std::size_t runs = 0;
  std::size_t steps = 0;
  std::size_t attempts = 0;
  std::size_t attempts_lost = 0;
  std::size_t outcomes_unknown = 0;
};

struct Allowances {
  /// A process that was stopped and went on may begin what its successor has begun since: nobody can tell it in time.
  bool late_beginnings = false;
};

/// `store` is where nothing moves any more.
Verdict judge(const std::string& store, const Books& books, const Allowances& allowances = {});

}  // namespace semel::process
