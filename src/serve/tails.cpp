#include "serve/tails.hpp"

#include "engine/entry_view.hpp"
#include "http/problem.hpp"
#include "serve/view.hpp"

#include <semel/value.hpp>

#include <boost/json.hpp>

#include <atomic>
#include <optional>

namespace semel::serve {

namespace {

constexpr std::chrono::milliseconds look_every{100};
constexpr std::chrono::seconds comment_every{15};
constexpr std::size_t entries_at_once = 200;

}  // namespace

struct Tails::Tail {
  Tail(std::string workspace, std::string id, store::Seq from, http::AnswerStream to)
      : workspace(std::move(workspace)), id(std::move(id)), next(from), stream(std::move(to)) {}

  void finish() {
    if (!std::exchange(is_finished, true)) stream.finish();
  }

  const std::string workspace;
  const std::string id;
  std::mutex mutex;  ///< for what follows
  store::Seq next;
  http::AnswerStream stream;
  bool is_finished = false;
  std::chrono::nanoseconds written_at = base::monotonic_now();
  /// What was written has not left yet: nothing more is, so that a slow client costs no memory.
  std::atomic<bool> is_busy{false};
  std::atomic<bool> is_gone{false};
};

void Tails::add(std::string workspace, std::string id, store::Seq from, http::Responder responder) {
  http::AnswerStream stream = responder.stream(
      {200, {{"content-type", "text/event-stream"}, {"cache-control", "no-store"}}, ""});
  auto tail = std::make_shared<Tail>(std::move(workspace), std::move(id), from, std::move(stream));
  {
    const std::lock_guard lock(mutex_);
    if (is_dismissed_) return tail->finish();
    tails_.push_back(tail);
  }
  if (!look(tail)) {
    const std::lock_guard lock(mutex_);
    tails_.remove(tail);
  }
  look_soon();
}

std::size_t Tails::count() {
  const std::lock_guard lock(mutex_);
  return tails_.size();
}

void Tails::look_soon() {
  const std::lock_guard lock(mutex_);
  if (is_looking_ || tails_.empty() || is_dismissed_) return;
  is_looking_ = true;
  timers_.after(look_every, [self = weak_from_this()] {
    const auto tails = self.lock();
    if (!tails) return;
    tails->submit_([self] {
      if (const auto alive = self.lock()) alive->look_at_all();
    });
  });
}

void Tails::look_at_all() {
  std::list<std::shared_ptr<Tail>> tails;
  {
    const std::lock_guard lock(mutex_);
    tails = tails_;
  }
  for (const auto& tail : tails) {
    if (look(tail)) continue;
    const std::lock_guard lock(mutex_);
    tails_.remove(tail);
  }
  {
    const std::lock_guard lock(mutex_);
    is_looking_ = false;
  }
  look_soon();
}

/// False: this one is done.
bool Tails::look(const std::shared_ptr<Tail>& tail) {
  const std::lock_guard lock(tail->mutex);
  if (tail->is_gone || tail->is_finished) return false;
  if (tail->is_busy) return true;
  const auto reader = driver_->reader();
  const auto run = reader->find(tail->workspace, tail->id);
  if (!run || !*run) return false;  // the stream is cut: whoever comes back hears why
  const auto entries = reader->journal((*run)->key, tail->next, entries_at_once);
  if (!entries) return false;
  std::string text;
  for (const store::StoredEntry& stored : *entries) {
    const Entry entry = engine::view(stored);
    text += "id: " + std::to_string(entry.seq) + "\nevent: " + entry.kind +
            "\ndata: " + value::to_text(serve::view(entry)) + "\n\n";
    tail->next = entry.seq + 1;
  }
  // Also of one that is dead or diverged: nothing comes before somebody retries it.
  const bool is_over = engine::end_of(**run) && entries->size() < entries_at_once &&
                       (!(*run)->version || tail->next > *(*run)->version);
  if (is_over) text += "event: end\ndata: {}\n\n";
  const auto now = base::monotonic_now();
  if (text.empty() && now - tail->written_at >= comment_every) text = ": still here\n\n";
  if (!text.empty()) {
    tail->written_at = now;
    tail->is_busy = true;
    const std::weak_ptr<Tail> written = tail;
    tail->stream.write(std::move(text), [written](bool has_left) {
      const auto it = written.lock();
      if (!it) return;
      it->is_gone = !has_left;
      it->is_busy = false;
    });
  }
  if (is_over) tail->finish();
  return !is_over;
}

void Tails::dismiss() {
  std::list<std::shared_ptr<Tail>> tails;
  {
    const std::lock_guard lock(mutex_);
    is_dismissed_ = true;
    tails.swap(tails_);
  }
  for (const auto& tail : tails) {
    const std::lock_guard lock(tail->mutex);
    tail->finish();
  }
}

}  // namespace semel::serve
