// Reservations: one owner at a time, decided by the store; fences, leases, expiry.
#include "tests/contract/stores.hpp"

namespace semel::store {
namespace {

ReservationId id_of(const std::string& key) {
  return {.ns = "orders", .scope = "tenant", .key = key};
}

Reserve reserve(const std::string& key, TimePoint now = at()) {
  return {.id = id_of(key), .fingerprint = "same", .lease = 30s, .ttl = 24h, .now = now};
}

Reserve owned(const std::string& key, const std::string& owner, TimePoint now = at()) {
  Reserve command = reserve(key, now);
  command.owner = owner;
  return command;
}

Reserve with_unknown(const std::string& key, TimePoint now = at()) {
  Reserve command = reserve(key, now);
  command.on_abandoned = OnAbandoned::unknown;
  return command;
}

Reserve with_other_input(const std::string& key, TimePoint now = at()) {
  Reserve command = reserve(key, now);
  command.fingerprint = "other";
  return command;
}

Complete complete(const std::string& key, Fence fence, const std::string& answer,
                  TimePoint now = at()) {
  return {.id = id_of(key), .fence = fence, .answer = answer, .now = now};
}

Release release(const std::string& key, Fence fence, TimePoint now = at()) {
  return {.id = id_of(key), .fence = fence, .now = now};
}

Renew renew(const std::string& key, Fence fence, TimePoint now) {
  return {.id = id_of(key), .fence = fence, .lease = 30s, .now = now};
}

Forget forget(const std::string& key, bool force = false, TimePoint now = at()) {
  return {.id = id_of(key), .force = force, .now = now};
}

Fence acquired(Subject& subject, const Reserve& command) {
  return subject.expect<Acquired>(command).fence;
}

std::string replayed(Subject& subject, const Reserve& command) {
  return subject.expect<Replay>(command).answer;
}

TEST_CASE("the first to ask does the work, the others hear that somebody does") {
  for_each_store([](Subject& subject) {
    const auto first = subject.expect<Acquired>(reserve("k"));
    CHECK_FALSE(first.taken_over);
    CHECK(first.lease_until == at(30s));

    CHECK(subject.expect<InProgress>(reserve("k", at(1s))).lease_until == at(30s));
    CHECK(acquired(subject, reserve("l")) > first.fence);
  });
}

TEST_CASE("in one batch, too, one asker gets the key") {
  for_each_store([](Subject& subject) {
    const auto answers = subject.all({reserve("k"), reserve("k"), with_other_input("k")});

    CHECK(std::holds_alternative<Acquired>(answers[0]));
    CHECK(std::holds_alternative<InProgress>(answers[1]));
    CHECK(std::holds_alternative<KeyReused>(answers[2]));
  });
}

TEST_CASE("what was answered is replayed byte by byte, also after a crash") {
  for_each_store([](Subject& subject) {
    const std::string bytes("200\0\r\n\xFF{}", 9);
    subject.expect<Done>(complete("k", acquired(subject, reserve("k")), bytes));

    subject.reopen();

    CHECK(replayed(subject, reserve("k", at(1h))) == bytes);
    CHECK(replayed(subject, owned("k", "step", at(1h))) == bytes);
  });
}

TEST_CASE("an empty answer is an answer") {
  for_each_store([](Subject& subject) {
    subject.expect<Done>(complete("k", acquired(subject, reserve("k")), ""));

    CHECK(replayed(subject, reserve("k")).empty());
  });
}

TEST_CASE("workspace, namespace, scope and key are told apart") {
  for_each_store([](Subject& subject) {
    std::vector<ReservationId> ids(7, id_of("k"));
    ids[1].workspace = "acme";
    ids[2].ns = "order";
    ids[3].ns = "orderstenant";
    ids[3].scope = "";
    ids[4].scope = "tenan";
    ids[4].key = "tk";
    ids[5].key = "K";
    ids[6].ns = "";

    for (const ReservationId& id : ids) {
      Reserve command = reserve("k");
      command.id = id;
      CHECK(std::holds_alternative<Acquired>(subject.execute(command)));
    }
  });
}

TEST_CASE("other input under a key is refused before the state is looked at") {
  for_each_store([](Subject& subject) {
    const Fence fence = acquired(subject, reserve("k"));
    subject.expect<KeyReused>(with_other_input("k"));
    subject.expect<KeyReused>(with_other_input("k", at(1h)));  // abandoned
    subject.expect<Done>(complete("k", fence, "1", at(1h)));
    subject.expect<KeyReused>(with_other_input("k", at(1h)));

    CHECK(replayed(subject, reserve("k", at(1h))) == "1");
    CHECK(std::holds_alternative<Acquired>(subject.execute(with_other_input("k", at(25h)))));
  });
}

TEST_CASE("a lease that ran out is taken over, to the nanosecond") {
  for_each_store([](Subject& subject) {
    const Fence first = acquired(subject, reserve("k"));
    subject.expect<InProgress>(reserve("k", at(30s - 1ns)));

    const auto second = subject.expect<Acquired>(reserve("k", at(30s)));

    CHECK(second.taken_over);
    CHECK(second.fence > first);
    CHECK(second.lease_until == at(60s));
  });
}

TEST_CASE("an owner that was paused cannot write after another took over") {
  for_each_store([](Subject& subject) {
    const Fence paused = acquired(subject, reserve("k"));
    const Fence now_at_work = acquired(subject, reserve("k", at(31s)));

    subject.expect<FenceLost>(complete("k", paused, "late", at(32s)));
    subject.expect<FenceLost>(release("k", paused, at(32s)));
    subject.expect<FenceLost>(renew("k", paused, at(32s)));

    CHECK(subject.expect<InProgress>(reserve("k", at(33s))).lease_until == at(61s));
    subject.expect<Done>(complete("k", now_at_work, "right", at(34s)));
    subject.expect<FenceLost>(complete("k", paused, "late", at(35s)));
    subject.expect<FenceLost>(release("k", paused, at(35s)));
    CHECK(replayed(subject, reserve("k", at(36s))) == "right");
  });
}

TEST_CASE("an owner whose lease ran out may finish while nobody took over") {
  for_each_store([](Subject& subject) {
    const Fence fence = acquired(subject, reserve("k"));

    subject.expect<Done>(complete("k", fence, "1", at(2h)));

    CHECK(replayed(subject, reserve("k", at(26h - 1ns))) == "1");
    CHECK(std::holds_alternative<Acquired>(subject.execute(reserve("k", at(26h)))));
  });
}

TEST_CASE("completing the same twice is done once, with another answer it is refused") {
  for_each_store([](Subject& subject) {
    const Fence fence = acquired(subject, reserve("k"));
    subject.expect<Done>(complete("k", fence, "1"));

    subject.expect<Done>(complete("k", fence, "1", at(1h)));
    subject.expect<FenceLost>(complete("k", fence, "2", at(1h)));
    subject.expect<FenceLost>(release("k", fence, at(1h)));

    CHECK(subject.expect<Replay>(reserve("k")).expires_at == at(24h));
  });
}

TEST_CASE("a fence is good for its own key alone") {
  for_each_store([](Subject& subject) {
    const Fence of_k = acquired(subject, reserve("k"));
    acquired(subject, reserve("l"));

    subject.expect<FenceLost>(complete("l", of_k, "1"));
    subject.expect<FenceLost>(release("l", of_k));
    subject.expect<FenceLost>(renew("l", of_k, at()));
    Complete elsewhere = complete("k", of_k, "1");
    elsewhere.id.workspace = "acme";
    subject.expect<FenceLost>(elsewhere);

    subject.expect<InProgress>(reserve("k"));
    subject.expect<InProgress>(reserve("l"));
  });
}

TEST_CASE("a renewed lease goes on, and with it the time until it is given up") {
  for_each_store([](Subject& subject) {
    const Fence fence = acquired(subject, reserve("k"));
    for (const auto time : {10s, 20s, 30s, 40s}) subject.expect<Done>(renew("k", fence, at(time)));

    CHECK(subject.expect<InProgress>(reserve("k", at(69s))).lease_until == at(70s));
    // Never shortened.
    Renew shorter = renew("k", fence, at(41s));
    shorter.lease = 1s;
    subject.expect<Done>(shorter);
    CHECK(subject.expect<InProgress>(reserve("k", at(69s))).lease_until == at(70s));
    CHECK(subject.expect<Swept>(Sweep{.now = at(24h + 70s - 1ns)}).reservations == 0);
    CHECK(subject.expect<Swept>(Sweep{.now = at(24h + 70s)}).reservations == 1);
  });
}

TEST_CASE("a released key is free, and its next fence is a new one") {
  for_each_store([](Subject& subject) {
    const Fence first = acquired(subject, reserve("k"));
    subject.expect<Done>(release("k", first));
    subject.expect<FenceLost>(release("k", first));

    const auto second = subject.expect<Acquired>(with_other_input("k"));

    CHECK_FALSE(second.taken_over);
    CHECK(second.fence > first);
    subject.expect<FenceLost>(complete("k", first, "late"));
  });
}

TEST_CASE("fences grow over releases, expiry, forgetting and reopening") {
  for_each_store([](Subject& subject) {
    Fence last = acquired(subject, reserve("k"));
    const auto grows = [&](const Reserve& command) {
      const Fence next = acquired(subject, command);
      CHECK(next > last);
      last = next;
    };
    subject.expect<Done>(release("k", last));
    grows(reserve("k"));
    grows(reserve("k", at(25h)));
    subject.expect<Done>(forget("k", true, at(25h)));
    grows(reserve("k", at(25h)));
    subject.expect<Done>(release("k", last, at(25h)));
    CHECK(subject.expect<Swept>(Sweep{.now = at(1000h)}).reservations == 0);
    subject.reopen();
    grows(reserve("k", at(25h)));
    subject.reopen();
    grows(reserve("l", at(25h)));
  });
}

Reserve done(const std::string& key, const std::string& answer, TimePoint now = at()) {
  Reserve command = reserve(key, now);
  command.outcome = Reserve::Outcome{.answer = answer};
  return command;
}

TEST_CASE("work that is done when its key is reserved is replayed from then on") {
  for_each_store([](Subject& subject) {
    const auto acquired = subject.expect<Acquired>(done("k", "1", at(5s)));

    CHECK_FALSE(acquired.taken_over);
    CHECK(replayed(subject, reserve("k", at(24h + 5s - 1ms))) == "1");
    subject.expect<KeyReused>(with_other_input("k", at(6s)));
    subject.expect<Done>(complete("k", acquired.fence, "1", at(6s)));
    subject.expect<FenceLost>(complete("k", acquired.fence, "2", at(6s)));
    subject.expect<ReservationMissing>(FindReservation{id_of("k"), at(24h + 5s)});
    subject.reopen();
    CHECK(replayed(subject, reserve("k", at(6s))) == "1");
  });
}

TEST_CASE("work that is done without an answer that can be kept leaves that it was done") {
  for_each_store([](Subject& subject) {
    Reserve command = done("k", "");
    command.outcome->state = ReservationState::not_retained;
    subject.expect<Acquired>(command);

    CHECK(subject.expect<Replay>(reserve("k", at(1s))).state == ReservationState::not_retained);
  });
}

TEST_CASE("whoever is done finds a key that is somebody's as anybody does") {
  for_each_store([](Subject& subject) {
    const Fence first = acquired(subject, reserve("k"));
    CHECK(subject.expect<InProgress>(done("k", "2", at(1s))).lease_until == at(30s));
    subject.expect<Done>(complete("k", first, "1", at(2s)));

    CHECK(replayed(subject, done("k", "2", at(3s))) == "1");
    CHECK(replayed(subject, reserve("k", at(3s))) == "1");
  });
}

TEST_CASE("whoever is done takes over what was abandoned, and what has expired") {
  for_each_store([](Subject& subject) {
    const Fence before = acquired(subject, reserve("k"));

    CHECK(subject.expect<Acquired>(done("k", "2", at(30s))).taken_over);
    subject.expect<FenceLost>(complete("k", before, "1", at(31s)));
    CHECK(replayed(subject, reserve("k", at(31s))) == "2");
    CHECK_FALSE(subject.expect<Acquired>(done("k", "3", at(24h + 30s))).taken_over);
    CHECK(replayed(subject, reserve("k", at(24h + 31s))) == "3");
  });
}

TEST_CASE("an answer is forgotten when its time is over, swept or not") {
  for_each_store([](Subject& subject) {
    subject.expect<Done>(complete("k", acquired(subject, reserve("k")), "1", at(5s)));
    CHECK(replayed(subject, reserve("k", at(24h + 5s - 1ms))) == "1");
    subject.expect<ReservationMissing>(FindReservation{id_of("k"), at(24h + 5s)});

    const auto again = subject.expect<Acquired>(reserve("k", at(24h + 5s)));

    CHECK_FALSE(again.taken_over);
    subject.expect<InProgress>(reserve("k", at(24h + 6s)));
  });
}

TEST_CASE("an owner gets its own unfinished work again, and its earlier self cannot write") {
  for_each_store([](Subject& subject) {
    const Fence before_crash = acquired(subject, owned("k", "step-1"));
    subject.reopen();

    const auto after = subject.expect<Acquired>(owned("k", "step-1", at(1s)));

    CHECK(after.taken_over);
    CHECK(after.fence > before_crash);
    subject.expect<FenceLost>(complete("k", before_crash, "old", at(2s)));
    subject.expect<InProgress>(owned("k", "step-2", at(2s)));
    subject.expect<InProgress>(reserve("k", at(2s)));
    Reserve other_input = owned("k", "step-1", at(2s));
    other_input.fingerprint = "other";
    subject.expect<KeyReused>(other_input);
    subject.expect<Done>(complete("k", after.fence, "new", at(3s)));
    CHECK(replayed(subject, owned("k", "step-1", at(4s))) == "new");
  });
}

TEST_CASE("nobody takes over what was to be unknown when abandoned, until it expires") {
  for_each_store([](Subject& subject) {
    const Fence fence = acquired(subject, with_unknown("k"));
    subject.expect<InProgress>(reserve("k", at(30s - 1ns)));

    CHECK(subject.expect<OutcomeUnknown>(reserve("k", at(30s))).expires_at == at(24h + 30s));
    CHECK(
        subject.expect<ReservationFound>(FindReservation{id_of("k"), at(30s)}).reservation.state ==
        ReservationState::unknown);
    // Its owner may still make it known.
    subject.expect<Done>(complete("k", fence, "1", at(40s)));
    CHECK(replayed(subject, reserve("k", at(41s))) == "1");

    acquired(subject, with_unknown("l"));
    CHECK(std::holds_alternative<Acquired>(subject.execute(reserve("l", at(24h + 30s)))));
  });
}

TEST_CASE("an outcome can be left unknown, or without its answer, by its owner") {
  for_each_store([](Subject& subject) {
    Complete lost = complete("k", acquired(subject, reserve("k")), "");
    lost.state = ReservationState::unknown;
    subject.expect<Done>(lost);
    CHECK(subject.expect<OutcomeUnknown>(reserve("k", at(1h))).expires_at == at(24h));

    Complete large = complete("l", acquired(subject, reserve("l")), "id 7");
    large.state = ReservationState::not_retained;
    subject.expect<Done>(large);
    const auto tombstone = subject.expect<Replay>(reserve("l", at(1h)));
    CHECK(tombstone.state == ReservationState::not_retained);
    CHECK(tombstone.answer == "id 7");
  });
}

TEST_CASE("what is finished or abandoned can be forgotten, what is worked on only by force") {
  for_each_store([](Subject& subject) {
    subject.expect<ReservationMissing>(forget("k"));
    const Fence fence = acquired(subject, with_unknown("k"));
    CHECK(subject.expect<InProgress>(forget("k", false, at(29s))).lease_until == at(30s));
    subject.expect<OutcomeUnknown>(reserve("k", at(30s)));
    subject.expect<Done>(forget("k", false, at(30s)));
    subject.expect<FenceLost>(complete("k", fence, "late", at(30s)));

    const Fence second = acquired(subject, reserve("k", at(30s)));
    subject.expect<Done>(forget("k", true, at(30s)));
    subject.expect<FenceLost>(complete("k", second, "late", at(30s)));

    const Fence third = acquired(subject, with_other_input("k", at(30s)));
    subject.expect<Done>(complete("k", third, "1", at(30s)));
    subject.expect<Done>(forget("k", false, at(31s)));
    CHECK(std::holds_alternative<Acquired>(subject.execute(reserve("k", at(31s)))));
  });
}

TEST_CASE("a look shows a reservation as it is and changes nothing") {
  for_each_store([](Subject& subject) {
    const FindReservation look{id_of("k"), at(1s)};
    subject.expect<ReservationMissing>(look);
    const Fence fence = acquired(subject, owned("k", "step-1"));

    const auto open = subject.expect<ReservationFound>(look).reservation;
    CHECK(open.state == ReservationState::in_progress);
    CHECK(open.fingerprint == "same");
    CHECK(open.owner == "step-1");
    CHECK(open.fence == fence);
    CHECK(open.lease_until == at(30s));
    CHECK(open.expires_at == at(24h + 30s));

    subject.expect<Done>(complete("k", fence, "1"));
    const auto done = subject.expect<ReservationFound>(look).reservation;
    CHECK(done.state == ReservationState::completed);
    CHECK(done.answer == "1");
    CHECK(done.expires_at == at(24h));
  });
}

TEST_CASE("a sweep takes expired reservations in small batches, the oldest first") {
  for_each_store([](Subject& subject) {
    for (const char* key : {"a", "b", "c", "d"})
      subject.expect<Done>(complete(key, acquired(subject, reserve(key)), key));
    acquired(subject, reserve("abandoned"));

    // They are looked for when an unfinished one would have expired.
    CHECK(subject.expect<Swept>(Sweep{.now = at(24h)}).reservations == 0);
    const auto first = subject.expect<Swept>(Sweep{.now = at(24h + 30s), .limit = 3});
    CHECK(first.reservations == 3);
    CHECK(first.more);
    const auto second = subject.expect<Swept>(Sweep{.now = at(24h + 30s), .limit = 3});
    CHECK(second.reservations == 2);
    CHECK_FALSE(second.more);
  });
}

TEST_CASE("a million bytes come back as they were") {
  for_each_store([](Subject& subject) {
    const std::string large(1'000'000, 'x');
    subject.expect<Done>(complete("k", acquired(subject, reserve("k")), large));

    subject.reopen();

    CHECK(replayed(subject, reserve("k")) == large);
  });
}

}  // namespace
}  // namespace semel::store
