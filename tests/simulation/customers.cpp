#include "tests/simulation/customers.hpp"

#include "tests/contract/describe.hpp"

#include <fmt/format.h>

namespace semel::sim {

using store::Command;
using store::ReservationId;

void Customers::begin(store::KeyClaims& claims) {
  claims_ = &claims;
  claimed_.clear();
  owed_.clear();
  releases_.clear();
}

std::vector<Command> Customers::ask() {
  std::vector<Command> commands = std::exchange(releases_, {});
  for (std::uint64_t count = random_.one_in(2) ? 1 + random_.below(2) : 0; count > 0; --count) {
    const ReservationId id{.workspace = random_.one_in(6) ? "other" : "default",
                           .ns = "orders",
                           .scope = {},
                           .key = fmt::format("k{}", random_.below(3))};
    const auto lease = std::chrono::seconds{1 + random_.below(20)};
    switch (random_.below(16)) {
      case 0:
        commands.emplace_back(store::FindReservation{.id = id, .now = {}});
        break;
      case 1:
        commands.emplace_back(store::Forget{.id = id, .force = random_.one_in(2), .now = {}});
        break;
      case 2:
        commands.emplace_back(
            store::Renew{.id = id, .fence = draw_fence(id), .lease = lease, .now = {}});
        break;
      case 3:
        commands.emplace_back(store::Release{.id = id, .fence = draw_fence(id), .now = {}});
        break;
      case 4:
      case 5:
      case 6:
        commands.emplace_back(store::Complete{.id = id,
                                              .fence = draw_fence(id),
                                              .state = random_.one_in(8)
                                                           ? store::ReservationState::not_retained
                                                           : store::ReservationState::completed,
                                              .answer = fmt::format("\"{}\"", random_.below(1000)),
                                              .now = {}});
        break;
      default: {
        store::Reserve reserve{.id = id,
                               .fingerprint = random_.one_in(6) ? "other" : "same",
                               .owner = random_.one_in(4) ? "step" : "",
                               .lease = lease,
                               .ttl = std::chrono::seconds{5 + random_.below(60)},
                               .now = {}};
        if (random_.one_in(2)) {
          reserve.owner.clear();
          ask_by_claim(commands, std::move(reserve));
        } else {
          commands.emplace_back(std::move(reserve));
        }
      }
    }
  }
  return commands;
}

/// Claims the key, or goes on where it is claimed: with what came of the work, with a reservation because it takes longer,
/// or with nothing.
void Customers::ask_by_claim(std::vector<Command>& commands, store::Reserve ask) {
  const auto mine = claimed_.find(ask.id);
  if (mine == claimed_.end()) {
    if (claims_->claim(ask) != store::KeyClaims::Claimed::yes) return;
    if (model_.reservations.contains(ask.id))
      checks_.fail("S11", fmt::format("key {} was claimed and is stored", ask.id.key));
    ask.is_claimed = true;
    const ReservationId id = ask.id;
    claimed_.emplace(id, Claimed{.ask = std::move(ask)});
    return;
  }
  Claimed& claimed = mine->second;
  if (claimed.is_asked) return;
  const std::uint64_t choice = random_.below(6);
  claimed.gives_up = choice == 0;
  if (claimed.gives_up && claims_->leave(mine->first)) {
    if (claimed.is_met && !claimed.is_revoked)
      checks_.fail("S11", fmt::format("key {} was left, and others had met the claim", ask.id.key));
    claimed_.erase(mine);
    return;
  }
  store::Reserve& reserve = claimed.ask;
  if (choice > 1) {
    reserve.outcome = store::Reserve::Outcome{.answer = fmt::format("\"{}\"", random_.below(1000))};
  }
  claimed.is_asked = true;
  commands.emplace_back(reserve);
}

/// What others are told is stored.
void Customers::meet(Claimed& claimed, const store::Reserve& newcomer) {
  claimed.is_met = true;
  const ReservationId& id = newcomer.id;
  if (model_.reservations.contains(id)) return;
  static_cast<void>(
      store::ModelReservations{model_}.answer(store::Reserve{.id = id,
                                                             .fingerprint = claimed.ask.fingerprint,
                                                             .owner = {},
                                                             .lease = claimed.ask.lease,
                                                             .ttl = newcomer.ttl,
                                                             .now = newcomer.now}));
  store::Model::Reservation& row = model_.reservations.at(id);
  claimed.leases.insert(row.lease_until);
  row.fence = --untold_fence_;  // nobody is told
}

bool Customers::is_of(const Claimed& claimed, const store::Model::Reservation& row) const {
  return row.state == store::ReservationState::in_progress && row.made.owner.empty() &&
         claimed.leases.contains(row.lease_until);
}

/// The last one they were given, as a rule; at times an older one, or none.
store::Fence Customers::draw_fence(const ReservationId& id) {
  const std::vector<store::Fence>& given = fences_[id];
  if (given.empty()) return 0;  // nobody ever gets it
  return random_.one_in(4) ? given[random_.below(given.size())] : given.back();
}

/// By the specification. A claim becomes a reservation when somebody else asks for its key, and its owner finds that again.
store::Answer Customers::expected(const Command& command) {
  store::ModelReservations model{model_};
  const auto* reserve = std::get_if<store::Reserve>(&command);
  const auto found = reserve == nullptr ? claimed_.end() : claimed_.find(reserve->id);
  Claimed* const claimed = found == claimed_.end() ? nullptr : &found->second;
  if (claimed != nullptr && !reserve->is_claimed && !claimed->is_revoked) meet(*claimed, *reserve);
  if (claimed != nullptr && reserve->is_claimed) {
    if (claimed->is_revoked) return store::FenceLost{};
    const auto row = model_.reservations.find(reserve->id);
    if (row != model_.reservations.end() && is_of(*claimed, row->second))
      model_.reservations.erase(row);
  }
  store::Answer answer = std::visit(
      [&model](const auto& each) -> store::Answer {
        if constexpr (requires { model.answer(each); }) {
          return model.answer(each);
        } else {
          return store::Done{};
        }
      },
      command);
  const auto* acquired = std::get_if<store::Acquired>(&answer);
  if (claimed != nullptr && reserve->is_claimed && !reserve->outcome && acquired != nullptr)
    claimed->leases.insert(acquired->lease_until);
  const auto* forget = std::get_if<store::Forget>(&command);
  if (forget != nullptr && std::holds_alternative<store::Done>(answer)) {
    const auto forgotten = claimed_.find(forget->id);
    if (forgotten != claimed_.end()) forgotten->second.is_revoked = true;
  }
  return answer;
}

void Customers::committed(std::span<const Command> commands, std::span<const store::Answer> answers,
                          bool heard) {
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const std::string right = describe(expected(commands[i]));
    if (const std::string said = describe(answers[i]); said != right) {
      return checks_.fail(
          "S11", fmt::format("{}: answered {}, right is {}", describe(commands[i]), said, right));
    }
    const auto* acquired = std::get_if<store::Acquired>(&answers[i]);
    if (acquired == nullptr) continue;
    // The numbers are the store's own business, as long as they grow.
    if (acquired->fence <= last_fence_)
      return checks_.fail("S11", fmt::format("fence {} after {}", acquired->fence, last_fence_));
    last_fence_ = acquired->fence;
    const ReservationId& id = std::get<store::Reserve>(commands[i]).id;
    model_.reservations.at(id).fence = acquired->fence;
    if (!heard) continue;
    fences_[id].push_back(acquired->fence);
    const auto claimed = claimed_.find(id);
    const bool is_given_up = std::get<store::Reserve>(commands[i]).is_claimed &&
                             claimed != claimed_.end() && claimed->second.gives_up;
    if (is_given_up)
      releases_.emplace_back(store::Release{.id = id, .fence = acquired->fence, .now = {}});
  }
  if (!heard) return failed(commands);
  for (const Command& command : commands) {
    const auto* reserve = std::get_if<store::Reserve>(&command);
    if (reserve == nullptr || !reserve->is_claimed) continue;
    claims_->settle(reserve->id);
    claimed_.erase(reserve->id);
  }
}

void Customers::failed(std::span<const Command> commands) {
  for (const Command& command : commands) {
    if (const auto* forget = std::get_if<store::Forget>(&command)) {
      // It may have been executed before its transaction failed, and then the claim counts for nothing.
      const auto claimed = claimed_.find(forget->id);
      if (claimed != claimed_.end()) claimed->second.is_revoked = claims_->is_revoked(forget->id);
    }
    const auto* reserve = std::get_if<store::Reserve>(&command);
    if (reserve == nullptr || !reserve->is_claimed) continue;
    const auto claimed = claimed_.find(reserve->id);
    if (!reserve->outcome && claimed != claimed_.end()) {
      claimed->second.is_asked = false;  // its work goes on: it asks again
      continue;
    }
    owed_.push_back(command);
    std::get<store::Reserve>(owed_.back()).outcome.reset();
  }
}

void Customers::reopened(store::Store& store, TimePoint now) {
  if (owed_.empty()) return;
  const std::vector<Command> owed = std::exchange(owed_, {});
  std::vector<Command> commands = owed;
  for (Command& command : commands) std::get<store::Reserve>(command).now = now;
  const auto answers = store.execute(commands);
  if (!answers) return checks_.fail("S11", "what was claimed could not be reserved");
  committed(commands, *answers, true);
}

void Customers::swept(store::Store& store, TimePoint latest) {
  for (auto each = model_.reservations.begin(); each != model_.reservations.end();) {
    const auto& [id, reservation] = *each;
    // At the beginning of time nothing has expired: what is there is shown.
    const std::vector<Command> look{store::FindReservation{.id = id, .now = TimePoint::min()}};
    const auto answers = store.execute(look);
    if (!answers || !std::holds_alternative<store::ReservationMissing>(answers->front())) {
      ++each;
      continue;
    }
    if (reservation.expires_at > latest)
      checks_.fail("S11", fmt::format("key {} was swept before its time", id.key));
    each = model_.reservations.erase(each);
  }
}

}  // namespace semel::sim
