// The head of a request: its first line and its headers, read strictly. A server and whatever stands in front of it must
// agree where a request ends, so what RFC 9112 merely lets a server tolerate is refused here: a line that ends without CR,
// a folded header, white space before a colon, two lengths.
#pragma once

#include <semel/detail/http_message.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace semel::http {

struct HeadLimits {
  std::size_t bytes_max = std::size_t{32} << 10U;
  std::size_t headers_max = 100;
};

/// Why a request is not served. The texts are literals: nothing of the request is repeated.
struct Refused {
  int status = 400;
  std::string_view code = "MALFORMED";
  std::string_view detail;
};

/// How the body is delimited, and what becomes of the connection.
struct Framing {
  std::optional<std::uint64_t> content_length;
  bool is_chunked = false;
  bool keep_alive = true;
  bool expects_continue = false;
  bool is_1_0 = false;

  bool has_body() const { return is_chunked || content_length.value_or(0) > 0; }
};

enum class Parsed { incomplete, complete, failed };

/// Reads one header line without its CRLF. Nothing where it is not one.
std::optional<HeaderView> read_header_line(std::string_view line);

/// Reads the heads of one connection, one after the other. Keeps offsets, because what is buffered may move as it grows.
class HeadParser {
 public:
  explicit HeadParser(const HeadLimits& limits) : limits_(limits) {}

  /// Forgets the last request. What it allocated stays.
  void reset();

  /// `buffered` begins with the request's first byte; called again with the same and more while it answers `incomplete`.
  /// A fault is found as soon as its line is complete.
  Parsed parse(std::string_view buffered);

  /// Whether a byte of the request has been seen.
  bool has_begun() const { return line_ > 0 || has_bytes_; }

  /// When complete: how long the head is, and what it says. `request` gets views into `buffered`.
  std::size_t length() const { return line_; }

  const Framing& framing() const { return framing_; }

  void show(std::string_view buffered, Request& request) const;

  /// When failed.
  const Refused& refused() const { return refused_; }

 private:
  struct Piece {
    std::uint32_t at = 0;
    std::uint32_t length = 0;

    std::string_view in(std::string_view text) const { return text.substr(at, length); }
  };

  struct Field {
    Piece name;
    Piece value;
  };

  Parsed fail(int status, std::string_view code, std::string_view detail);
  Parsed malformed(std::string_view detail);
  Parsed too_large(std::string_view detail);
  Parsed read_line(std::string_view line);
  Parsed read_request_line(std::string_view line);
  bool read_target(std::string_view method, std::string_view target);
  Parsed read_header(std::string_view line);
  Parsed note(const HeaderView& header, const Field& field);
  Parsed note_host(const Field& field, std::string_view value);
  Parsed note_length(std::string_view value);
  Parsed note_coding(std::string_view value);
  Parsed note_expect(std::string_view value);
  void note_connection(std::string_view value);
  Parsed finish();
  Piece piece(std::string_view part) const;

  HeadLimits limits_;
  const char* base_ = nullptr;  ///< of the text that `parse` was called with
  std::size_t line_ = 0;        ///< where the next line begins
  std::size_t scanned_ = 0;     ///< no line ends before this
  bool has_bytes_ = false;
  bool skipped_empty_line_ = false;
  Piece method_;
  Piece target_;
  Piece path_;
  Piece query_;
  Piece host_;
  bool host_is_targets_ = false;
  bool has_host_ = false;
  bool has_coding_ = false;
  bool says_close_ = false;
  bool says_keep_alive_ = false;
  bool is_refusable_later_ = false;
  std::vector<Field> fields_;
  Framing framing_;
  Refused refused_;
};

}  // namespace semel::http
