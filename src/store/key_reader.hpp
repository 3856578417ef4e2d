// API keys, read past the engine: where several processes share a store, what one of them changes holds for all of them at
// once.
#pragma once

#include "base/result.hpp"

#include <semel/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace semel::store {

struct ApiKeyRow {
  std::string id;
  std::string workspace;
  std::string name;
  std::string scopes;  ///< words
  std::string digest;
  TimePoint created_at{};
  std::optional<TimePoint> expires_at;
  bool is_revoked = false;
};

/// One thread at a time.
class KeyReader {
 public:
  struct Keys {
    std::int64_t version = 0;
    std::vector<ApiKeyRow> rows;  ///< in the order they were made
  };

  virtual ~KeyReader() = default;

  /// All keys as they are now, but for where nothing was changed since `version`: then none. Sees what was committed before
  /// the call.
  virtual base::Result<std::optional<Keys>> changed_since(std::optional<std::int64_t> version) = 0;
};

}  // namespace semel::store
