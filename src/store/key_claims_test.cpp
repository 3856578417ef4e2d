#include "store/key_claims.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <latch>
#include <stdexcept>
#include <vector>

namespace semel::store {

namespace {

using namespace std::chrono_literals;
using Claimed = KeyClaims::Claimed;
using Fill = KeyClaims::Fill;

Reserve ask(const std::string& key, const std::string& fingerprint = "same") {
  return {
      .id = {.ns = "orders", .scope = {}, .key = key}, .fingerprint = fingerprint, .lease = 30s};
}

void nothing(const KeyClaims::Visit&) {}

/// As whoever gives the key out.
std::optional<KeyClaims::Claim> give_out(KeyClaims& claims, const ReservationId& id) {
  claims.note(id);
  return claims.meet(id);
}

/// The scan goes on in the background.
Claimed claim_when_filled(KeyClaims& claims, const std::string& key) {
  Claimed claimed = Claimed::no;
  while ((claimed = claims.claim(ask(key))) == Claimed::no) std::this_thread::yield();
  return claimed;
}

}  // namespace

TEST_CASE("a key that nobody has is claimed once, and again when it was left") {
  KeyClaims claims;
  claims.begin_anew(nothing, Fill::empty);

  CHECK(claims.claim(ask("a")) == Claimed::yes);
  CHECK(claims.claim(ask("a")) == Claimed::no);
  CHECK(claims.claim(ask("b")) == Claimed::yes);
  CHECK(claims.leave(ask("a").id));
  CHECK(claims.claim(ask("a")) == Claimed::yes);
}

TEST_CASE("a claim that others met is not left: the store has to hear of it first") {
  KeyClaims claims;
  claims.begin_anew(nothing, Fill::empty);
  REQUIRE(claims.claim(ask("a")) == Claimed::yes);
  REQUIRE(give_out(claims, ask("a").id));

  CHECK_FALSE(claims.leave(ask("a").id));
  CHECK(give_out(claims, ask("a").id));
  claims.settle(ask("a").id);
  CHECK_FALSE(give_out(claims, ask("a").id));
}

TEST_CASE("the reservations that may have been made of a claim are known by their leases") {
  KeyClaims claims;
  claims.begin_anew(nothing, Fill::empty);
  REQUIRE(claims.claim(ask("a")) == Claimed::yes);
  CHECK_FALSE(claims.is_reserved(ask("a").id, TimePoint{} + 30s));

  claims.reserved(ask("a").id, TimePoint{} + 30s);
  claims.reserved(ask("a").id, TimePoint{} + 31s);

  CHECK(claims.is_reserved(ask("a").id, TimePoint{} + 30s));
  CHECK(claims.is_reserved(ask("a").id, TimePoint{} + 31s));
  CHECK_FALSE(claims.is_reserved(ask("a").id, TimePoint{} + 32s));
  CHECK_FALSE(claims.is_reserved(ask("b").id, TimePoint{} + 30s));
}

TEST_CASE("nobody meets a claim whose key was forgotten, and its owner can leave it") {
  KeyClaims claims;
  claims.begin_anew(nothing, Fill::empty);
  REQUIRE(claims.claim(ask("a")) == Claimed::yes);
  REQUIRE(give_out(claims, ask("a").id));
  CHECK_FALSE(claims.is_revoked(ask("a").id));

  claims.revoke(ask("a").id);

  CHECK(claims.is_revoked(ask("a").id));
  CHECK_FALSE(claims.is_revoked(ask("b").id));
  CHECK_FALSE(give_out(claims, ask("a").id));
  CHECK(claims.leave(ask("a").id));
  CHECK_FALSE(claims.is_revoked(ask("a").id));
}

TEST_CASE("nothing is claimed while the store is out of reach") {
  KeyClaims claims;
  claims.begin_anew(nothing, Fill::empty);
  REQUIRE(claims.claim(ask("before")) == Claimed::yes);

  claims.close();

  CHECK(claims.claim(ask("a")) == Claimed::no);
  CHECK(give_out(claims, ask("before").id));
  claims.begin_anew(nothing, Fill::empty);
  CHECK(claims.claim(ask("a")) == Claimed::yes);
}

TEST_CASE("a key whose claim came to something is known to be stored when the claim goes") {
  KeyClaims claims;
  claims.begin_anew(nothing, Fill::empty);
  REQUIRE(claims.claim(ask("a")) == Claimed::yes);

  claims.settle(ask("a").id);

  CHECK_FALSE(claims.meet(ask("a").id));
  CHECK(claims.claim(ask("a")) == Claimed::no);
}

TEST_CASE("whoever is about to give out a key that is claimed hears so") {
  KeyClaims claims;
  claims.begin_anew(nothing, Fill::empty);
  REQUIRE(claims.claim(ask("a", "mine")) == Claimed::yes);

  const auto met = give_out(claims, ask("a").id);
  const auto other = give_out(claims, ask("b").id);

  REQUIRE(met);
  CHECK(met->fingerprint == "mine");
  CHECK(met->lease == 30s);
  CHECK_FALSE(other);
}

TEST_CASE("a key that was about to be given out cannot be claimed any more") {
  KeyClaims claims;
  claims.begin_anew(nothing, Fill::empty);
  give_out(claims, ask("a").id);

  CHECK(claims.claim(ask("a")) == Claimed::no);
  CHECK_FALSE(give_out(claims, ask("a").id));
}

TEST_CASE("nothing is claimed before all that is stored is known, and nothing that is stored") {
  KeyClaims claims;
  CHECK(claims.claim(ask("new")) == Claimed::no);
  std::latch go_on{1};
  claims.begin_anew(
      [&](const KeyClaims::Visit& visit) {
        go_on.wait();
        visit(ask("old").id);
      },
      Fill::in_background);

  CHECK(claims.claim(ask("new")) == Claimed::no);
  give_out(claims, ask("noted").id);
  go_on.count_down();
  CHECK(claim_when_filled(claims, "new") == Claimed::yes);
  CHECK(claims.claim(ask("old")) == Claimed::no);
  CHECK(claims.claim(ask("noted")) == Claimed::no);
}

TEST_CASE(
    "where what is stored cannot be read nothing is claimed; when the store is opened again it "
    "can") {
  KeyClaims claims;
  std::latch failed{1};
  claims.begin_anew(
      [&](const KeyClaims::Visit&) {
        failed.count_down();
        throw std::runtime_error("no disk");
      },
      Fill::in_background);
  failed.wait();
  CHECK(claims.claim(ask("a")) == Claimed::no);

  claims.begin_anew(nothing, Fill::in_background);

  CHECK(claim_when_filled(claims, "a") == Claimed::yes);
}

TEST_CASE("where what is stored could not be read it is read again after a while") {
  KeyClaims claims;
  bool has_disk = false;
  claims.begin_anew(
      [&](const KeyClaims::Visit& visit) {
        if (!has_disk) throw std::runtime_error("no disk");
        visit(ask("old").id);
      },
      Fill::at_once);
  has_disk = true;
  CHECK(claims.claim(ask("new")) == Claimed::no);

  for (int i = 0; i < 1000; ++i) claims.renew_if_due();

  CHECK(claims.claim(ask("new")) == Claimed::yes);
  CHECK(claims.claim(ask("old")) == Claimed::no);
}

TEST_CASE("what is stored is known at once where it is asked for at once") {
  KeyClaims claims;
  claims.begin_anew([](const KeyClaims::Visit& visit) { visit(ask("old").id); }, Fill::at_once);

  CHECK(claims.claim(ask("old")) == Claimed::no);
  CHECK(claims.claim(ask("new")) == Claimed::yes);
}

TEST_CASE("claims outlive the store that is opened anew") {
  KeyClaims claims;
  claims.begin_anew(nothing, Fill::empty);
  REQUIRE(claims.claim(ask("a")) == Claimed::yes);

  claims.begin_anew(nothing, Fill::empty);

  CHECK(claims.claim(ask("a")) == Claimed::no);
  CHECK(give_out(claims, ask("a").id));
}

TEST_CASE("a filter that ran full is filled anew with what is still stored") {
  KeyClaims claims{std::size_t{64} << 10U};
  std::atomic<int> scans = 0;
  claims.begin_anew(
      [&](const KeyClaims::Visit& visit) {
        ++scans;
        visit(ask("kept").id);
      },
      Fill::empty);
  for (int i = 0; claims.claim(ask("new")) == Claimed::yes; ++i) {
    claims.leave(ask("new").id);
    give_out(claims, ask(fmt::format("k{}", i)).id);
    claims.renew_if_due();
  }
  CHECK(scans == 0);

  for (int i = 0; scans == 0 && i < 200'000; ++i) {
    give_out(claims, ask(fmt::format("l{}", i)).id);
    claims.renew_if_due();
  }

  CHECK(claim_when_filled(claims, "new") == Claimed::yes);
  CHECK(claims.claim(ask("kept")) == Claimed::no);
}

TEST_CASE(
    "of one who claims a key and one who gives it out at the same time, one hears of the other") {
  KeyClaims claims;
  claims.begin_anew(nothing, Fill::empty);
  constexpr std::size_t rounds = 20'000;
  std::vector<Claimed> claimed(rounds);
  std::vector<bool> was_met(rounds);
  std::atomic<std::size_t> begun = 0;
  std::atomic<std::size_t> done = 0;

  std::jthread claimer([&] {
    for (std::size_t i = 0; i < rounds; ++i) {
      while (begun.load() <= i) {
      }
      claimed[i] = claims.claim(ask(std::to_string(i)));
      ++done;
    }
  });
  for (std::size_t i = 0; i < rounds; ++i) {
    const ReservationId id = ask(std::to_string(i)).id;
    begun = i + 1;
    was_met[i] = give_out(claims, id).has_value();
    while (done.load() <= i) {
    }
  }

  int unheard = 0;
  int orphans = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    unheard += claimed[i] == Claimed::yes && !was_met[i] ? 1 : 0;
    orphans += claimed[i] == Claimed::no && was_met[i] ? 1 : 0;
  }
  CHECK(unheard == 0);
  CHECK(orphans == 0);
}

}  // namespace semel::store
