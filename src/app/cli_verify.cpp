#include "app/cli_verify.hpp"

#include "app/cli_progress.hpp"
#include "app/cli_store.hpp"
#include "app/cli_table.hpp"
#include "app/engine_core.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "engine/replay.hpp"

#include <semel/engine.hpp>
#include <semel/error.hpp>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>

namespace semel::app {

namespace {

namespace json = boost::json;

constexpr std::size_t page_size = 200;
constexpr std::size_t journal_page = 1000;
constexpr std::size_t message_width = 120;

struct Misfit {
  std::string id;
  std::string workflow;
  std::string why;
};

struct Verified {
  std::uint64_t fit = 0;
  std::uint64_t unknown = 0;  ///< of workflows that this program does not have
  std::vector<Misfit> misfits;
};

class Verifier {
 public:
  Verifier(const engine::Registry& registry, store::Reader& reader)
      : registry_(registry), reader_(reader) {}

  /// Why the code does not fit the journal; nothing where it does.
  std::optional<std::string> misfit(const store::RunRecord& run, const detail::WorkflowType& type) {
    const auto records = journal::read_journal(entries_of(run));
    if (!records) return records.error().message;
    auto frame = std::make_unique<engine::Frame>(registry_, random_, engine::FrameLimits{});
    const auto outcome = engine::replay(std::move(frame), type, run.input, *records, clock_.now());
    const auto* diverged = std::get_if<engine::Divergence>(&outcome);
    return diverged == nullptr ? std::nullopt : std::optional(diverged->message());
  }

 private:
  /// Those of the generation that would be replayed.
  std::vector<std::string> entries_of(const store::RunRecord& run) {
    std::vector<std::string> entries;
    for (;;) {
      auto page =
          value_or_throw(reader_.journal(run.key, run.first_seq + entries.size(), journal_page));
      for (store::StoredEntry& each : page) entries.push_back(std::move(each.bytes));
      if (page.size() < journal_page) return entries;
    }
  }

  const engine::Registry& registry_;
  store::Reader& reader_;
  base::SystemRandom random_;
  base::SystemClock clock_;
};

Verified verify_all(const VerifyOptions& options, const engine::Registry& registry,
                    store::Reader& reader, std::ostream& err) {
  Verified verified;
  Verifier verifier(registry, reader);
  Progress progress(err, "runs verified");
  store::ListFilter filter;
  filter.workspace = options.workspace;
  filter.workflow = options.workflow;
  filter.limit = page_size;
  for (;;) {
    const auto page = value_or_throw(reader.list(filter));
    for (const store::RunRecord& run : page) {
      if (store::is_end(run.status) && !options.all) continue;
      progress.add();
      const detail::WorkflowType* type = registry.find(run.workflow);
      if (type == nullptr) {
        ++verified.unknown;
        continue;
      }
      if (auto why = verifier.misfit(run, *type)) {
        verified.misfits.push_back({run.id, run.workflow, *std::move(why)});
      } else {
        ++verified.fit;
      }
    }
    if (page.size() < page_size) return verified;
    filter.before = {page.back().created_at, page.back().id};
  }
}

}  // namespace

int verify(const VerifyOptions& options, const Workflows& workflows, Output output) {
  // An engine on nothing: it knows the workflows and runs none of them.
  Engine engine{"memory:"};
  for (const auto& add : workflows) add(engine);
  const OpenedReader opened = open_for_reading(options.store);
  const Verified verified =
      verify_all(options, *engine.core().registry(), *opened.reader, output.err);
  if (options.json) {
    json::array misfits;
    for (const Misfit& each : verified.misfits)
      misfits.push_back({{"runId", each.id}, {"workflow", each.workflow}, {"why", each.why}});
    output.out << json::serialize(json::object{{"fit", verified.fit},
                                               {"unknownWorkflow", verified.unknown},
                                               {"misfits", std::move(misfits)}})
               << '\n';
  } else {
    fmt::print(output.out, "{} runs fit\n", verified.fit);
    if (verified.unknown > 0)
      fmt::print(output.out, "{} runs are of workflows that this program does not have\n",
                 verified.unknown);
    if (!verified.misfits.empty()) {
      fmt::print(output.out, "{} do not fit and would be parked as diverged:\n",
                 verified.misfits.size());
      Table table({"RUN", "WORKFLOW", "WHY"});
      for (const Misfit& each : verified.misfits)
        table.add({each.id, each.workflow, shortened(each.why, message_width)});
      table.print(output.out);
    }
  }
  return verified.misfits.empty() ? 0 : 1;
}

}  // namespace semel::app
