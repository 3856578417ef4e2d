// `semel verify`: stored journals against this program's workflows, before it is let loose on them.
#pragma once

#include "app/cli.hpp"

#include <optional>
#include <string>

namespace semel::app {

struct VerifyOptions {
  std::string store;
  std::string workspace = "default";
  std::optional<std::string> workflow{};
  bool all = false;  ///< finished runs as well: they will not be replayed, but tell more
  bool json = false;
};

/// Replays without changing anything, also beside a running engine. 0: every journal fits; 1: some do not.
int verify(const VerifyOptions& options, const Workflows& workflows, Output output);

}  // namespace semel::app
