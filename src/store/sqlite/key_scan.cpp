#include "store/sqlite/key_scan.hpp"

#include "store/sqlite/database.hpp"

namespace semel::store::sqlite {

bool has_no_keys(Database& database) {
  Statement any{database, "SELECT 1 FROM semel_reservation LIMIT 1"};
  return !any.any();
}

void scan_keys(Database& database, const KeyClaims::Visit& visit) {
  constexpr int slice = 1000;
  // By the fence: whoever gets a new one meanwhile is noted by the store.
  Statement keys{database,
                 "SELECT r.fence, w.name, r.ns, r.scope, r.key FROM semel_reservation r"
                 " JOIN semel_workspace w ON w.workspace = r.workspace"
                 " WHERE r.fence > ?1 ORDER BY r.fence LIMIT ?2"};
  Fence last = 0;
  for (int count = slice; count == slice;) {
    count = 0;
    Rows rows = keys.select(last, slice);
    for (; rows.next(); ++count) {
      last = rows.integer(0);
      if (!visit({rows.text(1), rows.text(2), rows.text(3), rows.text(4)})) return;
    }
  }
}

}  // namespace semel::store::sqlite
