#include "store/postgres/connection.hpp"

#include "base/assert.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace semel::store::postgres {

namespace {

struct Clear {
  void operator()(PGresult* result) const { PQclear(result); }
};

using Result = std::unique_ptr<PGresult, Clear>;

/// Its first line: what follows are guesses and hints.
std::string first_line(const char* message) {
  const std::string_view text = message == nullptr ? "" : message;
  return std::string{text.substr(0, text.find('\n'))};
}

/// What is said of each host that was tried, without the hints below.
std::string every_host(const char* message) {
  std::string said;
  for (std::string_view text = message == nullptr ? "" : message; !text.empty();) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty() || line.front() == '\t') continue;
    if (!said.empty()) said += "; ";
    said += line;
  }
  return said;
}

/// Everything the URL does not say: a dead peer is noticed by either side, and a node that may be written to is found. By who
/// only reads, too: a standby does not have yet what was just answered.
constexpr std::pair<const char*, const char*> defaults[] = {
    {"target_session_attrs", "read-write"},
    {"application_name", "semel"},
    {"connect_timeout", "5"},  // for each host: one that is gone may be named first
    {"keepalives_idle", "5"},
    {"keepalives_interval", "2"},
    {"keepalives_count", "3"},
    // What a machine does not even acknowledge by TCP it will not answer. (A busy server does: its kernel.)
    {"tcp_user_timeout", "10000"},
};

/// What the URL says comes last and wins.
PGconn* connect(const ConnectionOptions& options) {
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const auto& [name, value] : defaults) {
    names.push_back(name);
    values.push_back(value);
  }
  names.push_back("dbname");
  values.push_back(options.url.c_str());
  names.push_back(nullptr);
  values.push_back(nullptr);
  return PQconnectdbParams(names.data(), values.data(), 1);
}

/// A wait for synchronous replication that was cut short is reported as success, and a warning.
void note_warning(void* flag, const PGresult* notice) {
  const char* severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity != nullptr && std::strcmp(severity, "WARNING") == 0)
    *static_cast<bool*>(flag) = true;
}

/// The server ends the connection, or itself, and what the transaction came to is seen when it is back: a COMMIT that could
/// not be flushed is in the log all the same. What libpq makes up itself, because the connection broke, has no SQLSTATE.
bool is_end_of_connection(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  if (state == nullptr || std::string_view{state}.starts_with("57P")) return true;
  const char* severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
  return severity != nullptr &&
         (std::strcmp(severity, "FATAL") == 0 || std::strcmp(severity, "PANIC") == 0);
}

/// Whatever the server's defaults are: what is answered is on disk, and a statement sees what was committed before it. What a
/// batch writes is found by its key whatever the values are; by itself PostgreSQL would plan most of these statements anew for
/// each batch, which takes as long as they do, or compile what it takes to be dear. NULL: as the URL or the role has it.
std::string settings_for(const ConnectionOptions& options) {
  constexpr const char* reading = "set_config('default_transaction_read_only', 'on', false)";
  constexpr const char* writing =
      "set_config('default_transaction_read_only', NULL, false),"
      " set_config('statement_timeout', NULL, false),"
      " set_config('synchronous_commit', 'on', false),"
      " set_config('default_transaction_isolation', 'read committed', false),"
      " set_config('plan_cache_mode', 'force_generic_plan', false),"
      " set_config('jit', 'off', false)";
  return fmt::format(
      "SELECT set_config('lock_timeout', '{}', false),"
      " set_config('idle_in_transaction_session_timeout', '{}', false),"
      " set_config('tcp_keepalives_idle', '10', false),"
      " set_config('tcp_keepalives_interval', '5', false),"
      " set_config('tcp_keepalives_count', '3', false), {}",
      options.lock_timeout.count(), options.idle_timeout.count(),
      options.read_only ? reading : writing);
}

}  // namespace

bool Failed::was_in_the_way() const {
  return state_ == "23505" || state_ == "40P01" || state_ == "40001" || state_ == lock_timed_out;
}

// ------------------------------------------------------------------------------------------------ rows

int Rows::size() const { return PQntuples(result_); }

bool Rows::is_null(int row, int column) const { return PQgetisnull(result_, row, column) != 0; }

std::int64_t Rows::integer(int row, int column) const {
  const std::string_view bytes = view(row, column);
  SEMEL_ASSERT(bytes.size() == 2 || bytes.size() == 4 || bytes.size() == 8);
  // Shorter ones take their sign along.
  const bool is_negative = (static_cast<unsigned char>(bytes[0]) & 0x80U) != 0;
  std::uint64_t bits = is_negative ? ~std::uint64_t{0} : 0;
  for (const char byte : bytes) bits = bits << 8U | static_cast<unsigned char>(byte);
  return static_cast<std::int64_t>(bits);
}

std::string_view Rows::view(int row, int column) const {
  return {PQgetvalue(result_, row, column),
          static_cast<std::size_t>(PQgetlength(result_, row, column))};
}

std::int64_t Rows::changed() const {
  // It only reads.
  const std::string_view text = PQcmdTuples(const_cast<PGresult*>(result_));
  std::int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

int Rows::columns() const { return PQnfields(result_); }

std::string Rows::name(int column) const { return PQfname(result_, column); }

std::uint32_t Rows::type(int column) const { return PQftype(result_, column); }

std::vector<std::uint32_t> Rows::parameter_types() const {
  std::vector<std::uint32_t> types;
  types.reserve(static_cast<std::size_t>(PQnparams(result_)));
  for (int i = 0; i < PQnparams(result_); ++i) types.push_back(PQparamtype(result_, i));
  return types;
}

// ------------------------------------------------------------------------------------------------ connection

Connection::Connection(const ConnectionOptions& options)
    : handle_(connect(options)),
      patience_(options.patience),
      settings_(settings_for(options)),
      sent_(options.statements) {
  if (PQstatus(handle_) != CONNECTION_OK) {
    const std::string why = every_host(PQerrorMessage(handle_));
    PQfinish(handle_);
    throw Failed{"", {base::Errc::refused, "PostgreSQL cannot be reached: " + why}};
  }
  PQsetNoticeReceiver(handle_, note_warning, &warned_);
  PQsetnonblocking(handle_, 1);
  try {
    run(settings_);
  } catch (...) {
    PQfinish(handle_);
    throw;
  }
}

Connection::~Connection() {
  if (is_own_) PQfinish(handle_);
}

Borrowed::Borrowed(Connection& connection)
    : connection_(connection), was_nonblocking_(PQisnonblocking(connection.handle_) != 0) {
  const bool is_idle = PQpipelineStatus(connection.handle_) == PQ_PIPELINE_OFF;
  if (!is_idle || PQtransactionStatus(connection.handle_) != PQTRANS_INTRANS) {
    throw Failed{
        "",
        {base::Errc::refused,
         "the connection is not inside a transaction that goes on, waiting for a statement"}};
  }
  PQsetnonblocking(connection.handle_, 1);
}

Borrowed::~Borrowed() { PQsetnonblocking(connection_.handle_, was_nonblocking_ ? 1 : 0); }

bool Connection::in_transaction() const { return PQtransactionStatus(handle_) != PQTRANS_IDLE; }

void Connection::lose(const std::string& why) {
  lost_ = true;
  throw Failed{"", {base::Errc::conflict, "the connection to PostgreSQL is lost: " + why}};
}

void Connection::wait(bool for_writing) {
  pollfd socket{.fd = PQsocket(handle_),
                .events = static_cast<short>(for_writing ? POLLIN | POLLOUT : POLLIN),
                .revents = 0};
  const int ready = ::poll(&socket, 1, static_cast<int>(patience_.count()));
  if (ready == 0) lose(fmt::format("no answer in {} ms", patience_.count()));
  if (ready < 0 && errno != EINTR) lose(std::strerror(errno));
  if ((socket.revents & (POLLIN | POLLERR | POLLHUP)) != 0 && PQconsumeInput(handle_) == 0)
    lose(first_line(PQerrorMessage(handle_)));
}

void Connection::await_notification(std::chrono::milliseconds timeout, int interrupt) {
  const auto until = base::monotonic_now() + timeout;
  for (;;) {
    bool is_notified = false;
    while (PGnotify* notification = PQnotifies(handle_)) {
      PQfreemem(notification);
      is_notified = true;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - base::monotonic_now()).count();
    if (is_notified || left <= 0) return;
    pollfd ready[] = {{.fd = PQsocket(handle_), .events = POLLIN, .revents = 0},
                      {.fd = interrupt, .events = POLLIN, .revents = 0}};
    if (::poll(ready, 2, static_cast<int>(left)) < 0 && errno != EINTR) lose(std::strerror(errno));
    if (ready[1].revents != 0) return;
    if (ready[0].revents != 0 && PQconsumeInput(handle_) == 0)
      lose(first_line(PQerrorMessage(handle_)));
  }
}

void Connection::count_statement() const {
  if (sent_) sent_->fetch_add(1, std::memory_order_relaxed);
}

pg_result* Connection::next_result() {
  for (;;) {
    const int left = PQflush(handle_);
    if (left < 0) lose(first_line(PQerrorMessage(handle_)));
    if (PQisBusy(handle_) == 0) break;
    wait(left != 0);
  }
  return PQgetResult(handle_);
}

void Connection::run(const std::string& sql) {
  if (lost_) lose("earlier");
  if (PQsendQuery(handle_, sql.c_str()) == 0) lose(first_line(PQerrorMessage(handle_)));
  count_statement();
  std::optional<Failed> failure;
  while (const Result result{next_result()}) {
    if (PQresultStatus(result.get()) != PGRES_FATAL_ERROR) continue;
    const char* state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
    if (state == nullptr) lose(first_line(PQerrorMessage(handle_)));
    failure = Failed{state, {base::Errc::refused, first_line(PQresultErrorMessage(result.get()))}};
  }
  if (failure) throw Failed{*failure};
}

// ------------------------------------------------------------------------------------------------ pipeline

void Pipeline::begin() {
  if (connection_.lost_) connection_.lose("earlier");
  if (has_begun_) return;
  has_begun_ = true;
  connection_.warned_ = false;
  if (PQenterPipelineMode(connection_.handle_) == 0)
    connection_.lose(first_line(PQerrorMessage(connection_.handle_)));
}

void Pipeline::expect(int is_sent, Step step) {
  if (is_sent == 0) connection_.lose(first_line(PQerrorMessage(connection_.handle_)));
  steps_.push_back(std::move(step));
}

void Pipeline::add(std::string_view sql, const Parameters& parameters, Then then) {
  begin();
  auto known = connection_.prepared_.find(sql);
  std::string name;
  if (!connection_.is_own_) {
    prepare("", std::string{sql}, {});
  } else if (known != connection_.prepared_.end()) {
    name = known->second;
  } else {
    name = "s" + std::to_string(++connection_.statements_);
    send_prepare(sql, name);
  }
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (const std::string& value : parameters.values()) {
    values.push_back(value.data());
    lengths.push_back(static_cast<int>(value.size()));
  }
  const std::vector<int> formats(values.size(), 1);
  expect(PQsendQueryPrepared(connection_.handle_, name.c_str(), static_cast<int>(values.size()),
                             values.data(), lengths.data(), formats.data(), 1),
         {.prepares = {}, .then = std::move(then)});
  connection_.count_statement();
}

void Pipeline::send_prepare(std::string_view sql, const std::string& name) {
  const std::string text{sql};
  expect(PQsendPrepare(connection_.handle_, name.c_str(), text.c_str(), 0, nullptr),
         {.prepares = text, .then = {}});
  connection_.prepared_.emplace(text, name);
}

void Pipeline::prepare(const std::string& name, const std::string& sql,
                       const std::vector<std::uint32_t>& types) {
  begin();
  expect(PQsendPrepare(connection_.handle_, name.c_str(), sql.c_str(),
                       static_cast<int>(types.size()), types.data()),
         {});
}

void Pipeline::describe(const std::string& name, Then then) {
  begin();
  expect(PQsendDescribePrepared(connection_.handle_, name.c_str()),
         {.prepares = {}, .then = std::move(then)});
}

void Pipeline::execute(const std::string& name, const std::vector<Given>& given, Then then) {
  begin();
  std::vector<const char*> values;
  std::vector<int> lengths;
  std::vector<int> formats;
  for (const Given& each : given) {
    values.push_back(each.value ? each.value->c_str() : nullptr);
    lengths.push_back(each.value ? static_cast<int>(each.value->size()) : 0);
    formats.push_back(each.is_bytes ? 1 : 0);
  }
  expect(PQsendQueryPrepared(connection_.handle_, name.c_str(), static_cast<int>(values.size()),
                             values.data(), lengths.data(), formats.data(), 0),
         {.prepares = {}, .then = std::move(then)});
  connection_.count_statement();
}

void Pipeline::add_commit() {
  begin();
  commits_ = true;
  // What comes before it is answered first, so that it is seen how long the COMMIT alone takes.
  if (PQsendFlushRequest(connection_.handle_) == 0)
    connection_.lose(first_line(PQerrorMessage(connection_.handle_)));
  add("COMMIT");
  steps_.back().commits = true;
}

void Pipeline::run() {
  if (!has_begun_) return;
  try {
    if (PQpipelineSync(connection_.handle_) == 0)
      connection_.lose(first_line(PQerrorMessage(connection_.handle_)));
    read_answers();
  } catch (const Failed& failed) {
    // A statement that failed kept the COMMIT from happening.
    const bool is_unknown = connection_.lost_ && commits_ && !failure_;
    if (!is_unknown) throw;
    throw Failed{"", {base::Errc::unavailable, failed.fault().message + " (during COMMIT)"}};
  } catch (...) {
    connection_.lost_ = true;  // answers were left unread
    throw;
  }
  if (failure_) throw Failed{*failure_};
  if (commits_ && connection_.warned_) {
    connection_.lost_ = true;
    throw Failed{"", {base::Errc::unavailable, "PostgreSQL warned about a COMMIT"}};
  }
}

void Pipeline::run_as_transaction() {
  const auto began = base::monotonic_now();
  commits_ = true;
  run();
  connection_.commit_time_ = base::monotonic_now() - began;
}

void Pipeline::check(const pg_result* result) {
  switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_PIPELINE_ABORTED:
      return;
    default:
      break;
  }
  if (is_end_of_connection(result)) connection_.lose(first_line(PQresultErrorMessage(result)));
  if (!failure_) {
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char* primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    // Not the detail: it would show keys and tokens.
    std::string reason = first_line(primary);
    failure_ = Failed{state,
                      {base::Errc::refused, fmt::format("PostgreSQL says: {} ({})", reason, state)},
                      reason};
  }
}

void Pipeline::read_answers() {
  for (Step& step : steps_) {
    const auto began = step.commits ? base::monotonic_now() : std::chrono::nanoseconds{0};
    bool is_done = false;
    while (const Result result{connection_.next_result()}) {
      check(result.get());
      const ExecStatusType status = PQresultStatus(result.get());
      is_done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
      if (is_done && step.then && !failure_) step.then(Rows{result.get()});
    }
    if (PQstatus(connection_.handle_) != CONNECTION_OK)
      connection_.lose(first_line(PQerrorMessage(connection_.handle_)));
    if (step.commits) connection_.commit_time_ = base::monotonic_now() - began;
    if (!is_done && !step.prepares.empty()) connection_.prepared_.erase(step.prepares);
  }
  const Result sync{connection_.next_result()};
  if (!sync || PQresultStatus(sync.get()) != PGRES_PIPELINE_SYNC ||
      PQexitPipelineMode(connection_.handle_) == 0)
    connection_.lose("the pipeline is out of step");
}

}  // namespace semel::store::postgres
