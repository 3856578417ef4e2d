#include "idempotency/port.hpp"

#include <algorithm>

namespace semel::idempotency {

void tell(std::span<Errand* const> errands, std::span<base::Result<store::Answer>> answers) {
  struct Told {
    std::shared_ptr<Desk> desk;
    std::vector<Errand*> errands;
  };

  std::vector<Told> told;
  for (std::size_t i = 0; i < errands.size(); ++i) {
    Errand* const errand = errands[i];
    const std::shared_ptr<Desk> desk = errand->desk;
    errand->done(std::move(answers[i]));
    if (!desk) continue;  // and the errand may be gone
    auto of_desk = std::ranges::find(told, desk, &Told::desk);
    if (of_desk == told.end()) {
      told.push_back({desk, {}});
      of_desk = std::prev(told.end());
      of_desk->errands.reserve(errands.size() - i);
    }
    of_desk->errands.push_back(errand);
  }
  for (Told& each : told) each.desk->go_on(std::move(each.errands));
}

void tell(Errand& errand, base::Result<store::Answer> answer) {
  Errand* const only = &errand;
  tell(std::span{&only, 1}, std::span{&answer, 1});
}

}  // namespace semel::idempotency
