// What each command does, once its options are known. All throw Error; the command line turns it into words.
#pragma once

#include "app/cli_options.hpp"

#include <optional>
#include <string>

namespace semel::app {

struct DoctorOptions {
  std::string store;
  std::size_t limit = 20;  ///< offenders listed
  bool json = false;
};

/// 0: every unfinished run has a reason to wake; 1: some have none.
int doctor(const DoctorOptions& options, std::ostream& out);

struct MigrateOptions {
  std::string store;
  bool json = false;
};

int migrate(const MigrateOptions& options, std::ostream& out);

/// Read from `store` if there is one, else asked for at a server.
struct RunsOptions {
  Where where{};
  std::string store{};
  std::string workspace = "default";
  std::optional<std::string> status{};
  std::optional<std::string> workflow{};
  std::size_t limit = 20;
};

int list_runs(const RunsOptions& options, Output output);

struct JournalOptions {
  Where where{};
  std::string store{};
  std::string workspace = "default";
  std::string run_id{};
};

int show_journal(const JournalOptions& options, std::ostream& out);

}  // namespace semel::app
