#include "store/postgres/postgres_hints.hpp"

#include "store/postgres/connection.hpp"
#include "store/postgres/held.hpp"
#include "store/postgres/nodes.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <optional>
#include <utility>

namespace semel::store::postgres {

namespace {

constexpr const char* take_hints =
    "DELETE FROM semel.hint h USING semel.partition p WHERE p.node = $1::bigint"
    " AND h.partition = p.partition RETURNING h.run, h.kind";

class PostgresHints final : public Hints {
 public:
  PostgresHints(std::string url, std::shared_ptr<NodeIdentity> identity)
      : url_(std::move(url)), identity_(std::move(identity)) {}

  PostgresHints(const PostgresHints&) = delete;
  PostgresHints& operator=(const PostgresHints&) = delete;

  ~PostgresHints() override { ::close(interrupt_); }

  base::Result<Effects> take() override {
    try {
      connect();
      Effects effects;
      Pipeline pipeline{*connection_};
      pipeline.add(take_hints, Parameters::of(listening_for_),
                   [&](const Rows& rows) { read(rows, effects); });
      pipeline.run();
      return effects;
    } catch (const store::Failed& failed) {
      return failed.fault();
    }
  }

  void wait(std::chrono::milliseconds limit) override {
    try {
      connect();
      connection_->await_notification(limit, interrupt_);
    } catch (const store::Failed&) {
      await_interrupt(limit);
    }
  }

  void interrupt() override { ::eventfd_write(interrupt_, 1); }

 private:
  /// A node that comes back is another one.
  void connect() {
    if (!connection_ || connection_->is_lost()) {
      connection_.emplace(
          ConnectionOptions{.url = url_, .statements = {identity_, &identity_->statements}});
      // A hint that is deleted and comes back after a crash of the server does no harm.
      connection_->run("SET synchronous_commit = off");
      listening_for_ = 0;
    }
    const std::int64_t node = identity_->number;
    if (node == listening_for_) return;
    connection_->run(fmt::format("UNLISTEN *; LISTEN {}", channel_of(node)));
    listening_for_ = node;
  }

  /// Where the database is out of reach.
  void await_interrupt(std::chrono::milliseconds limit) const {
    pollfd ready{.fd = interrupt_, .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, static_cast<int>(limit.count()));
  }

  static void read(const Rows& rows, Effects& effects) {
    for (int i = 0; i < rows.size(); ++i) {
      const RunKey run = rows.integer(i, 0);
      switch (static_cast<HintKind>(rows.integer(i, 1))) {
        case HintKind::is_new:
          effects.created.push_back(run);
          break;
        case HintKind::is_over:
          effects.ended.push_back(run);
          break;
        case HintKind::goes_on_again:
          effects.opened.push_back(run);
          break;
        case HintKind::got_entry:
          effects.moved.push_back(run);
          break;
        case HintKind::got_something:
          effects.wake.push_back(run);
          break;
      }
    }
  }

  std::string url_;
  std::shared_ptr<NodeIdentity> identity_;
  std::optional<Connection> connection_;
  std::int64_t listening_for_ = 0;
  int interrupt_ = ::eventfd(0, EFD_CLOEXEC);
};

}  // namespace

std::unique_ptr<Hints> make_hints(std::string url, std::shared_ptr<NodeIdentity> identity) {
  return std::make_unique<PostgresHints>(std::move(url), std::move(identity));
}

}  // namespace semel::store::postgres
