#include "tests/simulation/planted.hpp"

#include "tests/simulation/broken_hooks.hpp"
#include "tests/simulation/broken_stores.hpp"

#include <array>
#include <optional>

namespace semel::sim {

namespace {

using namespace std::chrono_literals;

using store::sqlite::Database;

/// A bug in the store: every store that opens is wrapped.
template <class Broken>
class InStore final : public Sabotage {
  std::unique_ptr<store::Store> open(std::unique_ptr<store::Store> store,
                                     const std::shared_ptr<Database>& database) override {
    return std::make_unique<Broken>(std::move(store), database);
  }
};

/// The disk said that it had written, and had not.
class LosesLastCommit final : public Sabotage {
  class Remembering final : public BrokenStore {
   public:
    Remembering(std::unique_ptr<store::Store> store, std::shared_ptr<Database> database,
                Snapshot& before)
        : BrokenStore(std::move(store), std::move(database)), before_(before) {}

    Answers execute(std::span<const store::Command> batch) override {
      before_.take(database());
      return inner().execute(batch);
    }

   private:
    Snapshot& before_;
  };

  std::unique_ptr<store::Store> open(std::unique_ptr<store::Store> store,
                                     const std::shared_ptr<Database>& database) override {
    return std::make_unique<Remembering>(std::move(store), database, before_);
  }

  void crashed(Database& database) override { before_.restore(database); }

  Snapshot before_;
};

/// What the program wrote in a transaction and its entry are two commits.
class WritesBesideTheEntry final : public Sabotage {
  void crashed(Database& database) override {
    database.run("DELETE FROM ledger WHERE rowid = (SELECT max(rowid) FROM ledger)");
  }
};

/// Keys that are being worked on are kept in memory.
class ForgetsReservations final : public Sabotage {
  void crashed(Database& database) override {
    database.run("DELETE FROM semel_reservation WHERE state = 0");
  }
};

/// The engine's clock is ahead of the world's, now and then.
class FastClock final : public Sabotage {
  TimePoint clock(TimePoint now) override { return random_.one_in(4) ? now + 2s : now; }

  base::SeededRandom random_{1};
};

class RunsBodiesTwice final : public Sabotage {
  std::vector<engine::StepJob> bodies(engine::StepJob job) override {
    if (!random_.one_in(50)) return {std::move(job)};
    return {job, job};
  }

  base::SeededRandom random_{1};
};

/// A worker that was slow and begins long after its step has got its result.
class RunsRecordedStepsAgain final : public Sabotage {
  std::vector<engine::StepJob> bodies(engine::StepJob job) override {
    std::vector<engine::StepJob> jobs{job};
    if (old_ && random_.one_in(20)) jobs.push_back(*std::exchange(old_, std::nullopt));
    if (!old_) old_ = std::move(job);
    return jobs;
  }

  void crashed(Database&) override { old_.reset(); }

  base::SeededRandom random_{1};
  std::optional<engine::StepJob> old_;
};

/// What a body came to is told as that of the attempt after it.
class MiscountsResults final : public Sabotage {
  std::uint32_t attempt(std::uint32_t number) override {
    return random_.one_in(30) ? number + 1 : number;
  }

  base::SeededRandom random_{1};
};

/// Which keys are stored is not looked up when the store opens.
class ClaimsWhatIsStored final : public Sabotage {
  void opened(store::KeyClaims& claims) override {
    claims.begin_anew({}, store::KeyClaims::Fill::empty);
  }
};

template <class T>
std::unique_ptr<Sabotage> make() {
  return std::make_unique<T>();
}

const std::array bugs = std::to_array<Planted>({
    {"acknowledges before the commit", make<InStore<AcknowledgesEarly>>, "S6"},
    {"loses the last commit in a crash", make<LosesLastCommit>, "S1 S6"},
    {"sets timers behind the commit", make<InStore<SetsTimersLater>>, "L1"},
    {"fills inboxes behind the commit", make<InStore<FillsInboxesLater>>, "L1"},
    {"loses a timer", make<InStore<LosesTimers>>, "L1"},
    {"forgets who waits for a run", make<InStore<ForgetsWaiters>>, "L1"},
    {"overlooks a run when it recovers", make<InStore<OverlooksRuns>>, "L1"},
    {"takes a refused entry for written", make<InStore<SwallowsStale>>, "S3 S6", 200},
    {"has no unique index on the journal", make<InStore<DropsJournalIndex>>, "S1"},
    {"has no unique index on keys", make<InStore<DropsKeyIndex>>, "S11"},
    {"looks a key up before it writes", make<InStore<LooksKeysUp>>, "S11"},
    {"forgets the keys of older eras", make<InStore<ForgetsOlderKeys>>, "S11"},
    {"frees a key when its run ends", make<InStore<FreesKeysEarly>>, "S11"},
    {"rewinds the number of attempts", make<InStore<RewindsAttempts>>, "S4"},
    {"forgets which attempts were lost", make<InStore<ForgetsLostAttempts>>, "S3"},
    {"forgets the last result when it recovers", make<InStore<ForgetsLastResult>>, "S3 S4"},
    {"cancels a run without its children", make<InStore<CancelsWithoutChildren>>, "L3"},
    {"lets a late result overwrite a cancel", make<InStore<OverwritesEnds>>, "S9"},
    {"rewrites an entry", make<InStore<RewritesEntries>>, "S1"},
    {"rounds sleeps down when it recovers", make<InStore<RoundsSleepsDown>>, "S10"},
    {"has a clock that is ahead", make<FastClock>, "S10"},
    {"runs a body twice", make<RunsBodiesTwice>, "S3"},
    {"runs a recorded step again", make<RunsRecordedStepsAgain>, "S3"},
    {"looks a token up before it registers", make<InStore<LooksTokensUp>>, "S8"},
    {"acknowledges a payload before the commit", make<InStore<AcknowledgesPayloadsEarly>>, "S7"},
    {"frees tokens behind the end of their run", make<InStore<FreesTokensLater>>, "S8"},
    {"delivers to an awaiter that is gone", make<InStore<DeliversToTheDead>>, "S7"},
    {"lets a payload wait that was read", make<InStore<KeepsWhatWasRead>>, "S7"},
    {"takes a run's own token for another's", make<InStore<ConflictsWithItself>>, "S8"},
    {"forgets in a crash who reserved a key", make<ForgetsReservations>, "S11"},
    {"completes for an owner that was fenced", make<InStore<TrustsStaleOwners>>, "S11"},
    {"gives out keys that are claimed", make<InStore<IgnoresClaims>>, "S11"},
    {"claims keys that are stored", make<ClaimsWhatIsStored>, "S11"},
    {"writes a transaction's rows beside its entry", make<WritesBesideTheEntry>, "S5"},
    {"miscounts the attempts of results", make<MiscountsResults>, "S4 L6"},
});

const std::array oddities = std::to_array<Planted>({
    {"passes everything on", make<InStore<BrokenStore>>},
    {"sends every entry twice", make<InStore<SendsEntriesTwice>>},
    {"calls timers due too early", make<InStore<CallsTimersEarly>>},
});

}  // namespace

std::span<const Planted> planted_bugs() { return bugs; }

std::span<const Planted> harmless_oddities() { return oddities; }

}  // namespace semel::sim
