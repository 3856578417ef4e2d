#include "tests/simulation/customers.hpp"

#include "tests/contract/describe.hpp"

#include <fmt/format.h>

namespace semel::sim {

using store::Command;
using store::ReservationId;

std::vector<Command> Customers::ask() {
  std::vector<Command> commands;
  for (std::uint64_t count = random_.one_in(2) ? 1 + random_.below(2) : 0; count > 0; --count) {
    const ReservationId id{.workspace = random_.one_in(6) ? "other" : "default",
                           .ns = "orders",
                           .scope = {},
                           .key = fmt::format("k{}", random_.below(3))};
    const auto lease = std::chrono::seconds{1 + random_.below(20)};
    switch (random_.below(12)) {
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
      default:
        commands.emplace_back(store::Reserve{.id = id,
                                             .fingerprint = random_.one_in(6) ? "other" : "same",
                                             .owner = random_.one_in(4) ? "step" : "",
                                             .lease = lease,
                                             .ttl = std::chrono::seconds{5 + random_.below(60)},
                                             .now = {}});
    }
  }
  return commands;
}

/// The last one they were given, as a rule; at times an older one, or none.
store::Fence Customers::draw_fence(const ReservationId& id) {
  const std::vector<store::Fence>& given = fences_[id];
  if (given.empty()) return 1;
  return random_.one_in(4) ? given[random_.below(given.size())] : given.back();
}

void Customers::committed(std::span<const Command> commands, std::span<const store::Answer> answers,
                          bool heard) {
  store::ModelReservations model{model_};
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const store::Answer expected = std::visit(
        [&model](const auto& command) -> store::Answer {
          if constexpr (requires { model.answer(command); }) {
            return model.answer(command);
          } else {
            return store::Done{};
          }
        },
        commands[i]);
    const std::string right = describe(expected);
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
    if (heard) fences_[id].push_back(acquired->fence);
  }
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
