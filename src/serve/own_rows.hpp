// Rows of semel's own tables, as `UnitOfWork::run_own` gives them: what is text in one database is bytes in another.
#pragma once

#include <semel/sql.hpp>

#include <cstdint>
#include <string>

namespace semel::serve {

inline std::string text_in(const sql::Row& row, std::size_t column) {
  if (const auto* bytes = std::get_if<Bytes>(&row.values[column]))
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  return std::get<std::string>(row.values[column]);
}

/// NULL is 0.
inline std::int64_t integer_in(const sql::Row& row, std::size_t column) {
  const auto* number = std::get_if<std::int64_t>(&row.values[column]);
  return number == nullptr ? 0 : *number;
}

}  // namespace semel::serve
