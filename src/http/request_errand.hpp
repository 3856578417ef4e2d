// An errand of a request. Those of one connection thread go to the store together, once the thread has read all that was
// there to read, and what follows is done on that thread for all that the same commit was about: a commit for each few of
// them, and waking a thread for each, would cost more than the requests do.
#pragma once

#include "http/idempotency_layer.hpp"
#include "idempotency/port.hpp"

#include <memory>

namespace semel::http {

/// Made on the connection's thread.
class RequestErrand : public idempotency::Errand {
 public:
  explicit RequestErrand(std::shared_ptr<KeyedWork> work);

 protected:
  KeyedWork& work() { return *work_; }

  /// Has the port execute it. From any thread.
  void set_out(idempotency::Port& port);

 private:
  friend class RequestErrands;
  class ThreadDesk;

  /// Behind `done`, on the connection's thread, unless that has ended.
  virtual void go_on() = 0;

  const std::shared_ptr<KeyedWork> work_;
};

/// Those of a connection thread, for its event loop: while there is one, they are gathered.
class RequestErrands {
 public:
  RequestErrands();
  ~RequestErrands();
  RequestErrands(const RequestErrands&) = delete;
  RequestErrands& operator=(const RequestErrands&) = delete;

  /// The thread has nothing more to read.
  void set_out();
  /// It has, and the first one should wait no longer.
  void set_out_if_due();

  /// Some are with a port.
  bool is_any_out() const;

 private:
  const std::shared_ptr<RequestErrand::ThreadDesk> desk_;
};

}  // namespace semel::http
