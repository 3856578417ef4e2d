// Code of somebody else's inside a batch's transaction.
#pragma once

#include "store/tables.hpp"
#include "store/unit_of_work.hpp"

#include <functional>
#include <span>
#include <string_view>

namespace semel::store {

/// What a store gives to such code.
class UnitHost {
 public:
  virtual ~UnitHost() = default;

  /// As the transaction sees them now. Valid until the next call.
  virtual Tables& tables() = 0;

  /// A place to go back to. Around everything else here.
  virtual void begin() = 0;
  /// Keeps what was done since. Throws what the command is to be told, or what is `Internal`.
  virtual void keep() = 0;
  /// Undoes what was done since; `has_commands`: commands of the store's own were among it.
  virtual void undo(bool has_commands) = 0;

  /// See `sql::Session::run`.
  virtual void run(std::string_view sql, std::span<const sql::Value> parameters,
                   const std::function<void(const sql::Row&)>& each) = 0;
  /// See `UnitOfWork::run_own`.
  virtual void run_own(std::string_view sql, std::span<const sql::Value> parameters,
                       const std::function<void(const sql::Row&)>& each) = 0;
  /// Answers a command that the code makes.
  virtual Answer execute(const Command& command) = 0;
  virtual RunKey new_run_key() = 0;
};

Answer transact(UnitHost& host, const Transact& command);

}  // namespace semel::store
