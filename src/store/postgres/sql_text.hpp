// The text of users' SQL, as far as it has to be understood: where statements end, what they begin with, their parameters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace semel::store::postgres {

struct SqlStatement {
  std::string text;            ///< parameters are $1, $2 …, also where they were ?1, ?2 …
  std::string verb;            ///< its first word, in capitals; "(" where it begins so
  std::size_t parameters = 0;  ///< the highest number of one
  bool names_semel = false;    ///< the name `semel` is in it, not as part of a string
};

/// Cuts at semicolons that are not in strings, comments, parentheses or bodies of functions. What is left empty by that is
/// left out.
std::vector<SqlStatement> split_sql(std::string_view sql);

}  // namespace semel::store::postgres
