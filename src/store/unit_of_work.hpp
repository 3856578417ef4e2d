// The database inside a batch's transaction, for code that is not the store's.
#pragma once

#include "store/answer.hpp"
#include "store/command.hpp"

#include <semel/sql.hpp>

namespace semel::store {

/// What such code may do. What it does is committed with the rest of the batch, or undone where it throws.
class UnitOfWork {
 public:
  virtual ~UnitOfWork() = default;

  /// See `sql::Session::run`.
  virtual void run(std::string_view sql, std::span<const sql::Value> parameters,
                   const std::function<void(const sql::Row&)>& each) = 0;

  /// The same for tables of semel's own that no command is about.
  virtual void run_own(std::string_view sql, std::span<const sql::Value> parameters,
                       const std::function<void(const sql::Row&)>& each) = 0;

  /// A command of the store's own, within the same transaction. Its effects are those of the unit.
  virtual Answer execute(const Command& command) = 0;

  /// For a run that is started here.
  virtual RunKey new_run_key() = 0;

  /// When the command was made.
  virtual TimePoint now() const = 0;
};

/// Code to be run inside a transaction. It may be run again where the transaction has to be done over.
class Work {
 public:
  virtual ~Work() = default;

  /// Its result as JSON. Throws whatever it likes; then nothing of it stays.
  virtual std::string run(UnitOfWork& unit) = 0;

  /// Semel's own code, which makes commands and has no effect besides: it may be run as often as it takes to find out which
  /// rows they need.
  virtual bool is_repeatable() const { return false; }
};

/// Thrown in place of a step's result where the step, in its own transaction, ended its run or wrote into its journal.
std::exception_ptr moved_its_own_run();

}  // namespace semel::store
