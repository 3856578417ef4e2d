#include "app/bench_large.hpp"
#include "store/postgres/connection.hpp"
#include "store/sqlite/sqlite_store.hpp"

#include <algorithm>

namespace semel::app::bench {

namespace {

/// In one transaction.
constexpr std::int64_t runs_at_a_time = 20'000;
constexpr std::int64_t fill_cache_kib = std::int64_t{1} << 20;

/// As the store would have made them.
constexpr const char* sqlite_eras = R"sql(
WITH RECURSIVE next(era) AS (SELECT 1 + ?1 / ?3 UNION ALL SELECT era + 1 FROM next WHERE era <= ?2 / ?3)
INSERT OR IGNORE INTO semel_key_era (era) SELECT era FROM next
)sql";

// $1 the model, $2 and $3 the first and the last key, $4 when the run with the key $5 ended, $6 how much later the next did; on SQLite
// $7 how many keys an era has.

constexpr const char* sqlite_runs = R"sql(
WITH RECURSIVE copy(run) AS (SELECT ?2 UNION ALL SELECT run + 1 FROM copy WHERE run < ?3)
INSERT INTO semel_run (run, workspace, partition, status, holds_key, created_at, ended_at, deadline, parent,
  code_version, key_ttl, retention, key_until, keep_until, id, instance, workflow, idempotency_key, fingerprint, failure,
  input, output, generation, first_seq, key_era)
SELECT c.run, m.workspace, m.partition, m.status, m.holds_key, ?4 + (c.run - ?5) * ?6, ?4 + (c.run - ?5) * ?6, NULL, NULL,
  m.code_version, m.key_ttl, m.retention, ?4 + (c.run - ?5) * ?6 + m.key_ttl,
  ?4 + (c.run - ?5) * ?6 + max(m.key_ttl, m.retention), printf('00%024d', c.run), printf('%016d', c.run), m.workflow,
  lower(hex(randomblob(16))), m.fingerprint, m.failure, m.input, m.output, m.generation, m.first_seq,
  1 + c.run / ?7
FROM copy c, semel_run m WHERE m.run = ?1
)sql";

constexpr const char* sqlite_entries = R"sql(
WITH RECURSIVE copy(run) AS (SELECT ?2 UNION ALL SELECT run + 1 FROM copy WHERE run < ?3)
INSERT INTO semel_journal (run, seq, at, entry)
SELECT c.run, j.seq, j.at, j.entry FROM copy c CROSS JOIN semel_journal j WHERE j.run = ?1 ORDER BY c.run, j.seq
)sql";

constexpr const char* postgres_runs = R"sql(
INSERT INTO semel.run (run, workspace, partition, status, holds_key, created_at, ended_at, deadline, parent,
  code_version, key_ttl, retention, key_until, keep_until, id, instance, workflow, idempotency_key, fingerprint, failure,
  input, output, generation, first_seq)
SELECT c.run, m.workspace, c.run % 64, m.status, m.holds_key, c.ended, c.ended, NULL, NULL,
  m.code_version, m.key_ttl, m.retention, c.ended + m.key_ttl, c.ended + greatest(m.key_ttl, m.retention),
  convert_to(lpad(c.run::text, 26, '0'), 'UTF8'), convert_to(lpad(c.run::text, 16, '0'), 'UTF8'), m.workflow,
  convert_to(replace(gen_random_uuid()::text, '-', ''), 'UTF8'), m.fingerprint, m.failure, m.input, m.output,
  m.generation, m.first_seq
FROM (SELECT run, $4::bigint + (run - $5::bigint) * $6::bigint AS ended
  FROM generate_series($2::bigint, $3::bigint) AS run) c, semel.run m WHERE m.run = $1::bigint
)sql";

constexpr const char* postgres_entries = R"sql(
INSERT INTO semel.journal (run, seq, at, entry)
SELECT c.run, j.seq, j.at, j.entry FROM generate_series($2::bigint, $3::bigint) AS c(run)
CROSS JOIN LATERAL (SELECT * FROM semel.journal WHERE run = $1::bigint ORDER BY seq) j
)sql";

/// `fill` gets the first and the last key of each part, and the numbers from which the times are reckoned.
template <class Fill>
void in_parts(const Copies& copies, Progress& progress, Fill fill) {
  const std::int64_t begin = store::sqlite::to_ns(copies.ended_first);
  const std::int64_t step =
      (store::sqlite::to_ns(copies.ended_last) - begin) / std::max<std::int64_t>(1, copies.count);
  for (std::int64_t done = 0; done < copies.count; done += runs_at_a_time) {
    const std::int64_t part = std::min(runs_at_a_time, copies.count - done);
    fill(copies.first + done, copies.first + done + part - 1, begin, step);
    progress.add(static_cast<std::uint64_t>(part));
  }
}

}  // namespace

void fill_sqlite(const std::filesystem::path& file, const Copies& copies, Progress& progress) {
  namespace sqlite = store::sqlite;
  const auto database = sqlite::Database::open(file.string(), sqlite::Database::Access::write,
                                               {.cache_kib = fill_cache_kib});
  database->run("PRAGMA synchronous = OFF");
  sqlite::Statement{*database, sqlite_eras}.run(copies.first, copies.first + copies.count - 1,
                                                store::keys_per_era_default);
  sqlite::Statement runs{*database, sqlite_runs};
  sqlite::Statement entries{*database, sqlite_entries};
  in_parts(copies, progress,
           [&](store::RunKey first, store::RunKey last, std::int64_t begin, std::int64_t step) {
             database->run("BEGIN IMMEDIATE");
             runs.run(copies.model, first, last, begin, copies.first, step,
                      store::keys_per_era_default);
             entries.run(copies.model, first, last);
             database->run("COMMIT");
             database->checkpoint();
           });
}

void fill_postgres(const std::string& url, const Copies& copies, Progress& progress) {
  using store::postgres::Parameters;
  store::postgres::Connection connection{{.url = url}};
  connection.run("SET synchronous_commit = off");
  in_parts(copies, progress,
           [&](store::RunKey first, store::RunKey last, std::int64_t begin, std::int64_t step) {
             store::postgres::Pipeline pipeline{connection};
             pipeline.add(postgres_runs,
                          Parameters::of(copies.model, first, last, begin, copies.first, step));
             pipeline.add(postgres_entries, Parameters::of(copies.model, first, last));
             pipeline.run();
           });
}

void settle_postgres(const std::string& url) {
  store::postgres::Connection connection{{.url = url, .patience = std::chrono::hours{1}}};
  connection.run("VACUUM ANALYZE semel.run");
  connection.run("VACUUM ANALYZE semel.journal");
  try {
    connection.run("CHECKPOINT");
  } catch (const store::Failed&) {
    return;  // only some may; then it comes by itself, a little later
  }
}

}  // namespace semel::app::bench
