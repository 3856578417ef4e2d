// What an operator's calls come to, as commands for the store: pure, so that the loop and a transaction do the same.
#pragma once

#include "engine/loop.hpp"
#include "store/answer.hpp"
#include "store/command.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace semel::engine {

Refusal not_found(const std::string& id);
Refusal moved_on(const std::string& id);

/// It is over, and was to be cancelled.
Refusal not_active(const store::RunRecord& run);

/// Whether the run is at the version its caller expects.
bool is_at(const store::RunRecord& run, const std::optional<std::uint64_t>& expected);

/// Why the run cannot be retried; none: it can.
std::optional<Refusal> refuse_retry(const store::RunRecord& run);

/// A failed, dead or diverged run goes on: the failure that ended it is voided, what was recorded stays.
std::variant<store::ReopenRun, Refusal> reopening(const store::RunLoaded& loaded, TimePoint now);

/// Two commands of one transaction, in this order.
struct Forking {
  store::StartRun start;
  store::AdvanceRun rest;
};

/// `copy` gets the journal of `loaded` up to and including `seq`, and what is pending there.
std::variant<Forking, Refusal> forking(const store::RunLoaded& loaded, std::uint64_t seq,
                                       store::NewRun copy, TimePoint now);

/// An entry that ends the run's sleeps, written without asking its owner, who reads the run anew.
struct Waking {
  store::AdvanceRun command;
  int sleeps = 0;
};

/// None: nothing of it sleeps.
std::optional<Waking> waking(const store::RunLoaded& loaded, TimePoint now);

}  // namespace semel::engine
