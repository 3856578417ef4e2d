// Stores as the command line sees them: named by a URL, looked at and never changed, also beside a running engine.
#pragma once

#include "store/reader.hpp"

#include <semel/error.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace semel::app {

struct OpenedReader {
  std::unique_ptr<store::Reader> reader;
  std::string path;
};

/// Throws Error VALIDATION_ERROR for a URL that names no store, STORE_UNAVAILABLE where there is none to read; both say
/// what to do.
OpenedReader open_for_reading(const std::string& url);

/// What was read, or STORE_UNAVAILABLE.
template <class T>
T value_or_throw(base::Result<T> result) {
  if (!result) throw Error("STORE_UNAVAILABLE", result.error().message);
  return std::move(*result);
}

struct StoreSummary {
  int schema_version = 0;
  int schema_version_known = 0;
  std::map<store::Status, std::int64_t> runs;  ///< by status, all of them
  std::int64_t timers = 0;
  std::int64_t inbox_items = 0;
  std::int64_t entries = 0;
};

/// Throws as `open_for_reading`.
StoreSummary summarise(const std::string& url);

/// The word for a status, and back.
std::string status_word(store::Status status);
std::optional<store::Status> status_of(const std::string& word);

}  // namespace semel::app
