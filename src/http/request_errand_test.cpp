#include "http/request_errand.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace semel::http {
namespace {

/// A request of a thread that does what is posted when it is told to.
class Work final : public KeyedWork {
 public:
  void run(Begin, Done) override {}

  void answer(Response) override {}

  bool post(std::function<void()> action) override {
    posted.push_back(std::move(action));
    return true;
  }

  void do_posted() {
    for (const auto& each : std::exchange(posted, {})) each();
  }

  std::vector<std::function<void()>> posted;
};

class NotingPort final : public idempotency::Port {
 public:
  void execute(store::Command, idempotency::Reply) override {}

  void execute(idempotency::Errand& errand) override { seen.push_back(&errand); }

  base::Result<store::Answer> call(store::Command) override { return store::Answer{}; }

  void go_on(std::function<void()>) override {}

  TimePoint now() const override { return {}; }

  /// A commit was about all of them.
  void tell_all() {
    std::vector<base::Result<store::Answer>> answers(seen.size(), store::Answer{});
    idempotency::tell(std::exchange(seen, {}), answers);
  }

  std::vector<idempotency::Errand*> seen;
};

class Order final : public RequestErrand {
 public:
  explicit Order(std::shared_ptr<Work> work) : RequestErrand(std::move(work)) {}

  void leave(idempotency::Port& port) { set_out(port); }

  void done(base::Result<store::Answer>) override { is_done = true; }

  bool is_done = false;
  bool went_on = false;

 private:
  void go_on() override { went_on = true; }
};

using Errands = std::vector<idempotency::Errand*>;

struct Shop {
  std::shared_ptr<Work> work = std::make_shared<Work>();
  NotingPort port;
  Order first{work};
  Order second{work};
};

}  // namespace

TEST_CASE("errands of a thread are set out together, and go on together on that thread") {
  Shop shop;
  RequestErrands errands;

  shop.first.leave(shop.port);
  shop.second.leave(shop.port);
  CHECK(shop.port.seen.empty());
  CHECK_FALSE(errands.is_any_out());

  errands.set_out();
  CHECK(shop.port.seen == Errands{&shop.first, &shop.second});
  CHECK(errands.is_any_out());

  shop.port.tell_all();
  CHECK(shop.first.is_done);
  CHECK(shop.second.is_done);
  CHECK_FALSE(shop.first.went_on);
  CHECK_FALSE(errands.is_any_out());

  CHECK(shop.work->posted.size() == 1);
  shop.work->do_posted();
  CHECK(shop.first.went_on);
  CHECK(shop.second.went_on);
}

TEST_CASE("an errand goes at once where nobody gathers: without a loop, and from another thread") {
  Shop shop;

  SUBCASE("without a loop") { shop.first.leave(shop.port); }
  SUBCASE("from another thread") {
    const RequestErrands errands;
    std::jthread{[&] {
      const RequestErrands theirs;
      shop.first.leave(shop.port);
    }}.join();
    CHECK(errands.is_any_out());
  }

  CHECK(shop.port.seen == Errands{&shop.first});
  shop.port.tell_all();
  CHECK_FALSE(RequestErrands{}.is_any_out());
}

TEST_CASE("a loop that ends sets out what it has gathered") {
  Shop shop;
  {
    const RequestErrands errands;
    shop.first.leave(shop.port);
  }
  CHECK(shop.port.seen == Errands{&shop.first});
}

}  // namespace semel::http
