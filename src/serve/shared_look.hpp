// One look at something serves all who asked before it began: what it finds is never older than the question, and many
// questions cost as much as one.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace semel::serve {

class SharedLook {
 public:
  /// `look` may block; it says whether it could.
  explicit SharedLook(std::function<bool()> look);
  SharedLook(const SharedLook&) = delete;
  SharedLook& operator=(const SharedLook&) = delete;
  /// Waits for the look under way. Whoever still waits is told that there was none.
  ~SharedLook();

  using Then = std::function<void(bool could_look)>;

  /// `then` is called once, behind a look that began after this call. It must neither block nor throw. From any thread.
  void ask(Then then);

 private:
  void run(const std::stop_token& stop);

  const std::function<bool()> look_;
  std::mutex mutex_;
  std::condition_variable_any asked_;
  std::vector<Then> waiting_;
  std::jthread thread_;  ///< the last: it uses the others
};

}  // namespace semel::serve
