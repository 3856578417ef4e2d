#include "tests/simulation/kinds.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace semel::sim {

namespace {

using Output = const std::string&;

int chain_result(int n) {
  int value = n;
  for (int i = 0; i < chain_length(n); ++i) value = 2 * value + 1;
  return value;
}

int twice(int n) { return 2 * (2 * n + 1) + 1; }

int fan_result(int n) {
  int sum = 2 * (2 * n + 1) + chain_result(n) + chain_result(n + 1);
  for (int i = 0; i < 2 + n % 3; ++i) sum += 2 * i + 1;
  return sum;
}

int parent_result(int n) { return chain_result(n) + twice(n); }

int family_result(int n) { return 2 * chain_result(n % 2) + parent_result(n) + 2 * n + 1; }

std::string is(Output output, int expected) {
  const std::string right = std::to_string(expected);
  return output == right ? "" : "it returned " + output + ", right is " + right;
}

/// Where something that it could not help went wrong, -1 is right as well.
std::string is_or_excused(Output output, int expected, bool excused) {
  return output == "-1" && excused ? "" : is(output, expected);
}

std::string judge_racing(int n, Output output, const Evidence& evidence) {
  const auto results = value::decode<std::vector<int>>(output, value::Mode::journal);
  const auto is_any_of = [](int value, std::initializer_list<int> allowed) {
    return std::ranges::find(allowed, value) != allowed.end();
  };
  if (results.size() != 4 || !is_any_of(results[0], {-1, 2 * n + 1}) || results[1] != 0 ||
      !is_any_of(results[2], {-1, chain_result(n)}) ||
      !is_any_of(results[3], {-1, -2, chain_result(n)})) {
    return "it returned " + output;
  }
  return results[3] == -2 && !evidence.other_failed ? "it blames a child, and none failed" : "";
}

std::string judge_saga(int n, Output output, const Evidence& evidence) {
  std::string wrong = is(output, n % 2 == 1 ? twice(n) : -twice(n));
  if (!wrong.empty() || n % 2 == 1) return wrong;
  const std::uint64_t refund = evidence.first_effect("4.1");
  const std::uint64_t unreserve = evidence.first_effect("4.2");
  // A fork has some of it from the run it was taken from.
  if (refund == 0 || unreserve == 0) return "";
  return refund < unreserve ? "" : "it was undone oldest first";
}

std::string judge_patient(int n, Output output, const Evidence& evidence) {
  return output == "-2" ? "" : is_or_excused(output, n, evidence.other_failed);
}

template <auto workflow>
void add(engine::Registry& registry, Workflows& workflows, std::string name) {
  registry.add(
      detail::workflow_type(std::move(name), workflow, 1, [&workflows](auto&&... arguments) {
        return (workflows.*workflow)(std::forward<decltype(arguments)>(arguments)...);
      }));
}

/// A workflow whose result depends on its argument alone.
template <int (*result)(int n)>
std::string always(int n, Output output, const Evidence&) {
  return is(output, result(n));
}

using Wf = Workflows;

const std::array
    all_kinds =
        std::
            to_array<Kind>(
                {
                    {"chain", 10, add<&Wf::chain>, always<chain_result>},
                    {"flaky", 10, add<&Wf::flaky>, always<twice>},
                    {"hopeless", 5, add<&Wf::hopeless>, always<twice>, /*may_fail=*/true},
                    {"once", 8, add<&Wf::once>,
                     [](int n, Output output, const Evidence& evidence) {
                       return is_or_excused(output, 4 * n + 2,
                                            evidence.step_failed || evidence.step_unknown);
                     }},
                    {"timed", 6, add<&Wf::timed>,
                     [](int n, Output output, const Evidence& evidence) {
                       return is_or_excused(output, 4 * n + 2, evidence.step_failed);
                     }},
                    {"beating", 5, add<&Wf::beating>,
                     [](int n, Output output, const Evidence& evidence) {
                       return is_or_excused(output, 2 * n + 1, evidence.step_failed);
                     }},
                    {"sleeper", 6, add<&Wf::sleeper>,
                     [](int n, Output output, const Evidence&) { return is(output, n * 10 + 2); }},
                    {"graceful", 5, add<&Wf::graceful>,
                     [](int n, Output output, const Evidence&) { return is(output, n); }},
                    {"clerk", 8, add<&Wf::clerk>, always<twice>},
                    {"fan", 6, add<&Wf::fan>, always<fan_result>},
                    {"brittle", 5, add<&Wf::brittle>,
                     [](int n, Output output, const Evidence&) { return is(output, 2 * n + 1); }},
                    {"verdicts", 5, add<&Wf::verdicts>,
                     [](int, Output output, const Evidence&) { return is(output, 112); }},
                    {"racing", 6, add<&Wf::racing>, judge_racing},
                    {"background", 5, add<&Wf::background>,
                     [](int n, Output output, const Evidence&) {
                       return is(output, chain_result(n) + 2 * n + 1);
                     }},
                    {"saga", 6, add<&Wf::saga>, judge_saga},
                    {"parent", 8, add<&Wf::parent>,
                     [](int n, Output output, const Evidence& evidence) {
                       return is_or_excused(output, parent_result(n), evidence.other_failed);
                     }},
                    {"family", 5, add<&Wf::family>,
                     [](int n, Output output, const Evidence& evidence) {
                       // A grandchild that fails makes its parent return -1, which is no failure.
                       if (output == std::to_string(family_result(n) - parent_result(n) - 1))
                         return std::string{};
                       return is_or_excused(output, family_result(n), evidence.other_failed);
                     }},
                    {"patient", 5, add<&Wf::patient>, judge_patient},
                    {"mailbox", 8, add<&Wf::mailbox>,
                     [](int, Output output, const Evidence&) {
                       return std::string(output.empty() ? "it returned nothing" : "");
                     }},
                    {"renewing", 5, add<&Wf::renewing>,
                     [](int n, Output output, const Evidence&) {
                       return is_or_excused(output, n, true);
                     }},
                    {"poison", 1, add<&Wf::poison>,
                     [](int n, Output output, const Evidence&) { return is(output, n); },
                     /*may_fail=*/false,
                     /*surely_ends=*/false},
                    {"drifting", 3, add<&Wf::drifting>, always<twice>, /*may_fail=*/false,
                     /*surely_ends=*/false},
                });

}  // namespace

std::span<const Kind> kinds() { return all_kinds; }

const Kind* find_kind(std::string_view name) {
  const auto found = std::ranges::find(all_kinds, name, &Kind::name);
  return found == all_kinds.end() ? nullptr : &*found;
}

}  // namespace semel::sim
