#include "store/postgres/sql_text.hpp"

#include <algorithm>
#include <charconv>

namespace semel::store::postgres {

namespace {

constexpr std::string_view own_schema = "SEMEL";

// PostgreSQL's notion of letters, whatever the locale: all bytes beyond ASCII are.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_space(char c) { return std::string_view{" \t\r\n\f\v"}.find(c) != std::string_view::npos; }

std::string capitals(std::string_view word) {
  std::string out{word};
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return out;
}

class Splitter {
 public:
  explicit Splitter(std::string_view sql) : sql_(sql) {}

  std::vector<SqlStatement> split() {
    while (at_ < sql_.size()) next();
    finish();
    return std::move(statements_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < sql_.size() ? sql_[at_ + ahead] : '\0';
  }

  bool sees(std::string_view text) const { return sql_.substr(at_).starts_with(text); }

  /// Goes on to `end`, which is copied too.
  void copy_to(std::size_t end) {
    end = std::min(end, sql_.size());
    statement_.text += sql_.substr(at_, end - at_);
    at_ = end;
  }

  void copy_through(std::string_view end, std::size_t from) {
    const std::size_t found = sql_.find(end, from);
    copy_to(found == std::string_view::npos ? sql_.size() : found + end.size());
  }

  void next() {
    const char c = peek();
    if (sees("--")) return copy_through("\n", at_);
    if (sees("/*")) return comment();
    if (c == '\'') return quoted('\'', false);
    if (c == '"') return name();
    if (c == '$') return dollar();
    if (c == '?' && is_digit(peek(1))) return parameter();
    if (is_letter(c)) return word();
    if (c == ';' && depth_ == 0 && blocks_ == 0) {
      ++at_;
      return finish();
    }
    if (c == '(') ++depth_;
    if (c == ')') --depth_;
    if (statement_.verb.empty() && !is_space(c)) statement_.verb = c;
    copy_to(at_ + 1);
  }

  /// They nest.
  void comment() {
    int open = 0;
    std::size_t end = at_;
    do {
      const std::string_view rest = sql_.substr(end);
      if (rest.starts_with("/*")) {
        ++open;
        end += 2;
      } else if (rest.starts_with("*/")) {
        --open;
        end += 2;
      } else {
        ++end;
      }
    } while (open > 0 && end < sql_.size());
    copy_to(end);
  }

  /// A quote in it is doubled, or, in E'…', may have a backslash before it.
  void quoted(char quote, bool has_escapes) {
    std::size_t end = at_ + 1;
    while (end < sql_.size() && sql_[end] != quote) end += has_escapes && sql_[end] == '\\' ? 2 : 1;
    copy_to(end + 1);
  }

  void name() {
    const std::size_t begin = at_ + 1;
    quoted('"', false);
    note_name(sql_.substr(begin, at_ - begin - 1));
  }

  void note_name(std::string_view name) {
    if (capitals(name) == own_schema) statement_.names_semel = true;
  }

  /// $1 is a parameter, $tag$ begins a string.
  void dollar() {
    if (is_digit(peek(1))) return parameter();
    std::size_t end = at_ + 1;
    while (end < sql_.size() && (is_letter(sql_[end]) || is_digit(sql_[end]))) ++end;
    if (end < sql_.size() && sql_[end] == '$') {
      copy_through(sql_.substr(at_, end + 1 - at_), end + 1);
    } else {
      copy_to(at_ + 1);
    }
  }

  void parameter() {
    std::size_t end = at_ + 1;
    while (end < sql_.size() && is_digit(sql_[end])) ++end;
    std::size_t number = 0;
    std::from_chars(sql_.data() + at_ + 1, sql_.data() + end, number);
    statement_.parameters = std::max(statement_.parameters, number);
    statement_.text += '$';
    ++at_;
    copy_to(end);
  }

  void word() {
    std::size_t end = at_;
    while (end < sql_.size() && (is_letter(sql_[end]) || is_digit(sql_[end]) || sql_[end] == '$'))
      ++end;
    const std::string word = capitals(sql_.substr(at_, end - at_));
    copy_to(end);
    if (word == "E" && peek() == '\'') return quoted('\'', true);
    if (statement_.verb.empty()) statement_.verb = word;
    note_name(word);
    note_body(word);
  }

  /// CREATE FUNCTION … BEGIN ATOMIC …; …; END has semicolons of its own.
  void note_body(const std::string& word) {
    if (statement_.verb != "CREATE") return;
    const bool is_block = word == "ATOMIC" || (blocks_ > 0 && word == "CASE");
    if (is_block) ++blocks_;
    if (blocks_ > 0 && word == "END") --blocks_;
  }

  void finish() {
    if (!statement_.verb.empty()) statements_.push_back(std::move(statement_));
    statement_ = {};
    depth_ = 0;
    blocks_ = 0;
  }

  std::string_view sql_;
  std::size_t at_ = 0;
  int depth_ = 0;   ///< of parentheses
  int blocks_ = 0;  ///< BEGIN ATOMIC and CASE that have not ended
  SqlStatement statement_;
  std::vector<SqlStatement> statements_;
};

}  // namespace

std::vector<SqlStatement> split_sql(std::string_view sql) { return Splitter{sql}.split(); }

}  // namespace semel::store::postgres
