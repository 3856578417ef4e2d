// JSON text, read and written token by token. Semel's own, because a misfit has to say where it is and numbers have to
// come back exactly.
#pragma once

#include <semel/error.hpp>

#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semel {

/// Binary data; a base64 string in JSON.
using Bytes = std::vector<std::byte>;

namespace value {

/// How strictly a text has to fit its type.
enum class Mode {
  boundary,  ///< from outside: no unknown members, and all that are not optional
  journal,   ///< our own: unknown members are ignored, absent ones keep their initial value
};

/// How deeply arrays and objects may be nested. What we write can be wrapped a few times and still
/// be read.
inline constexpr std::size_t boundary_depth_max = 64;
inline constexpr std::size_t written_depth_max = 128;
inline constexpr std::size_t journal_depth_max = 256;

constexpr std::size_t depth_max(Mode mode) {
  return mode == Mode::boundary ? boundary_depth_max : journal_depth_max;
}

/// Why a text does not fit a type.
struct Misfit {
  std::string path;     ///< JSON pointer of the bad place; empty for the whole value
  std::string message;  ///< for people: "expected a number"

  friend bool operator==(const Misfit&, const Misfit&) = default;
};

namespace detail {

/// What went wrong first, kept by a Reader or Writer while its callers return. They add the path on
/// their way out, so that success pays nothing for it.
struct Failure {
  const char* reason = nullptr;  ///< null: nothing went wrong
  std::string detail;            ///< what completes the reason
  std::string path;
  std::size_t at = 0;     ///< how far reading got
  bool is_final = false;  ///< no other alternative of a variant can help

  void in_member(std::string_view name);
  void in_element(std::size_t index);
  Misfit misfit() &&;
};

}  // namespace detail

/// Reads JSON text (RFC 8259, strictly) front to back. Each call answers whether it went well;
/// after the first "no" the failure is kept and the caller returns "no" as well. The text must
/// outlive the reader.
class Reader {
 public:
  Reader(std::string_view text, Mode mode, std::size_t depth_max)
      : begin_(text.data()),
        at_(begin_),
        end_(begin_ + text.size()),
        depth_left_(depth_max),
        mode_(mode) {}

  Reader(std::string_view text, Mode mode) : Reader(text, mode, value::depth_max(mode)) {}

  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Mode mode() const { return mode_; }

  bool null();
  bool boolean(bool& out);
  bool integer(std::int64_t& out, int bits);
  bool integer(std::uint64_t& out, int bits);
  bool number(double& out);
  bool number(float& out);
  bool string(std::string& out);
  bool bytes(Bytes& out);
  bool time(std::int64_t& seconds, std::int64_t& nanoseconds);
  bool json(Json& out);

  /// A string that is valid until the next call.
  bool string_view(std::string_view& out);

  /// The text of a number, from which nothing is lost.
  bool number_text(std::string_view& out);

  /// Any one value, unseen.
  bool skip();

  /// Whether null comes next.
  bool is_null();

  /// The first character of the value that comes next; 0 at the end.
  char peek();

  /// An array is `enter_array()`, then elements as long as `next_element(index)` holds, then
  /// `ok()`.
  bool enter_array();
  bool next_element(std::size_t index);

  /// An object is `enter_object()`, then values as long as `next_member(index, name)` holds, then
  /// `ok()`. The name is valid until the next call.
  bool enter_object();
  bool next_member(std::size_t index, std::string_view& name);

  /// If {"$alternative": index, "value": comes next, reads that far; `leave_alternative` reads the
  /// closing brace.
  std::optional<std::size_t> enter_alternative();
  bool leave_alternative();

  /// The text is over.
  bool finish();

  bool ok() const { return failure_.reason == nullptr; }

  bool fail(const char* reason) { return fail(reason, {}); }

  bool fail(const char* reason, std::string detail);

  /// The member that `next_member` named is one that nobody knows.
  bool fail_unexpected(std::string_view name);

  /// Says where the failure happened, from the inside out. Both return false.
  bool in_member(std::string_view name);
  bool in_element(std::size_t index);

  Misfit misfit() { return std::move(failure_).misfit(); }

  /// Whether the failure is one that reading the text as another type would meet as well.
  bool is_final() const { return failure_.is_final; }

  /// A place to come back to.
  struct Mark {
    const char* at;
    std::size_t depth_left;
  };

  Mark mark();

  /// After a failure: goes back to try something else, and keeps in `best` the failure that got
  /// furthest. False where trying on is pointless, as in text that is not JSON.
  bool back_to(const Mark& mark, detail::Failure& best);

  /// No alternative fitted.
  bool give_up(const Mark& mark, detail::Failure best);

 private:
  bool expected(const char* what);
  bool malformed(const char* why);
  bool literal(std::string_view word);
  bool enter(char bracket, const char* what);
  bool json_number(Json& out);
  bool scan_number(std::string_view& token, bool& is_integral);
  bool scan_string(std::string_view& out, std::string& buffer);
  bool scan_escape(std::string& out);
  bool scan_hex4(unsigned& out);
  template <class Float>
  bool floating(std::string_view token, Float& out);
  void skip_space();

  std::string_view rest() const { return {at_, static_cast<std::size_t>(end_ - at_)}; }

  const char* begin_;
  const char* at_;
  const char* end_;
  std::size_t depth_left_;
  std::size_t reread_ = 0;  ///< characters that `back_to` went back, in all
  Mode mode_;
  std::string scratch_;
  detail::Failure failure_;
};

/// Appends JSON text to a string. Answers and failures as in Reader.
class Writer {
 public:
  explicit Writer(std::string& out, std::size_t depth_max = written_depth_max)
      : out_(&out), depth_left_(depth_max) {}

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// What was written so far; plain punctuation is appended to it directly.
  std::string& text() { return *out_; }

  const std::string& text() const { return *out_; }

  bool null();
  bool boolean(bool value);
  bool integer(std::int64_t value);
  bool integer(std::uint64_t value);
  bool number(double value);
  bool number(float value);
  bool string(std::string_view value);
  bool bytes(std::span<const std::byte> value);
  bool time(std::int64_t seconds, std::int64_t nanoseconds);
  bool json(const Json& value);

  /// Opens an array or object; `leave` closes it. An element is preceded by `element(index)`, a
  /// member by `member(index, name)`.
  bool enter(char bracket);
  bool leave(char bracket);
  void element(std::size_t index);
  bool member(std::size_t index, std::string_view name);

  bool fail(const char* reason);
  bool in_member(std::string_view name);
  bool in_element(std::size_t index);

  Misfit misfit() { return std::move(failure_).misfit(); }

 private:
  std::string* out_;
  std::size_t depth_left_;
  detail::Failure failure_;
};

}  // namespace value
}  // namespace semel
