// Appointments over HTTP: a contract, a server that keeps it and a client that calls it. Sent twice under one key, a
// booking is made once; sent without one, the client makes up a key of its own.
//
//   appointments              shows that and ends
//   appointments serve PORT   serves until standard input closes; port 0 is one that is free
#include <semel/semel.hpp>

#include <charconv>
#include <iostream>
#include <limits>

namespace http = semel::http;
namespace sql = semel::sql;
using namespace std::chrono_literals;

namespace {

struct CreateAppointment {
  std::string patient;
  std::string day;
};
BOOST_DESCRIBE_STRUCT(CreateAppointment, (), (patient, day))

struct Appointment {
  std::int64_t id = 0;
  std::string patient;
  std::string day;
};
BOOST_DESCRIBE_STRUCT(Appointment, (), (id, patient, day))

// What both sides agree on. In a larger program it is in a header that server and client include.
const auto create_appointment =
    http::post<CreateAppointment, Appointment>("/appointments")
        .named("appointments.create")
        .idempotent({.required = true, .scope = semel::Scope::actor_tenant, .ttl = 24h});

const auto get_appointment = http::get<Appointment>("/appointments/{id}").named("appointments.get");

/// The handlers know nothing of keys: a duplicate never reaches them.
void add_handlers(http::Server& server, semel::Engine& engine) {
  server.handle(create_appointment, [&engine](const CreateAppointment& body, http::Call& call) {
    if (body.patient.empty())
      throw http::ProblemError(422, "PATIENT_MISSING", "an appointment is somebody's");
    call.status = 201;
    return engine.transaction([&](sql::Transaction& tx) {
      return tx
          .query<Appointment>(
              "INSERT INTO appointment (patient, day) VALUES (?1, ?2) RETURNING id, patient, day",
              body.patient, body.day)
          .front();
    });
  });

  server.handle(get_appointment, [&engine](const std::monostate&, const http::Call& call) {
    const auto found = engine.transaction([&](sql::Transaction& tx) {
      return tx.query<Appointment>("SELECT id, patient, day FROM appointment WHERE id = ?1",
                                   call.path.at("id"));
    });
    if (found.empty())
      throw http::ProblemError(404, "APPOINTMENT_NOT_FOUND", "there is no such appointment");
    return found.front();
  });
}

void make_table(semel::Engine& engine) {
  engine.transaction([](sql::Transaction& tx) {
    tx.exec(
        "CREATE TABLE IF NOT EXISTS appointment (id INTEGER PRIMARY KEY, patient TEXT, day TEXT)");
  });
}

int serve(std::uint16_t port) {
  semel::Engine engine{"sqlite:appointments.db"};  // remembers appointments and keys
  make_table(engine);
  http::Server server{engine, {.port = port}};
  add_handlers(server, engine);
  server.start();
  std::cout << "http://127.0.0.1:" << server.port() << '\n' << std::flush;
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  return 0;
}

int show() {
  semel::Engine engine{"sqlite:appointments.db"};
  make_table(engine);
  http::Server server{engine};
  add_handlers(server, engine);
  server.start();

  http::Client client{"http://127.0.0.1:" + std::to_string(server.port())};
  const CreateAppointment wanted{.patient = "p1", .day = "2030-05-14"};
  // The caller has a name for what it does: whoever calls again with it, even after a restart, gets the first answer.
  const Appointment first = client.call(create_appointment, wanted, {.idempotency_key = "visit-1"});
  const Appointment again = client.call(create_appointment, wanted, {.idempotency_key = "visit-1"});
  // The caller has none: each call is another booking, and its retries are not.
  const Appointment other = client.call(create_appointment, wanted);

  bool is_refused = false;
  try {
    client.call(create_appointment, {.patient = "p2", .day = "2030-05-14"},
                {.idempotency_key = "visit-1"});
  } catch (const semel::IdempotencyConflictError& error) {
    std::cout << "refused: " << error.what() << '\n';
    is_refused = true;
  }
  const Appointment read =
      client.call(get_appointment, {}, {.path = {{"id", std::to_string(other.id)}}});

  const auto booked = engine.transaction([](sql::Transaction& tx) {
    return tx.query<std::int64_t>("SELECT count(*) FROM appointment").front();
  });
  std::cout << "answers " << first.id << ", " << again.id << ", " << other.id << "; booked "
            << booked << '\n';
  const bool is_so = first.id == again.id && other.id != first.id && read.patient == "p1" &&
                     booked == 2 && is_refused;
  return is_so ? 0 : 1;
}

std::optional<std::uint16_t> port_in(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (wrong != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return port;
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string_view> arguments(words + 1, words + count);
  if (arguments.empty()) return show();
  const auto port =
      arguments.size() == 2 && arguments[0] == "serve" ? port_in(arguments[1]) : std::nullopt;
  if (port) return serve(*port);
  std::cerr << "usage: appointments [serve PORT]\n";
  return 2;
}
