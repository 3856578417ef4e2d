#pragma once

#include "store/reader.hpp"
#include "store/sqlite/database.hpp"

#include <memory>

namespace semel::store::sqlite {

/// Each call is one read transaction. The schema was checked by the caller.
std::unique_ptr<Reader> make_reader(std::shared_ptr<Database> database);

}  // namespace semel::store::sqlite
