#include "http/chunked.hpp"

#include "http/characters.hpp"

#include <algorithm>
#include <cstring>

namespace semel::http {

namespace {

/// A size has at most 16 digits; what else a line holds are extensions, which nobody uses for good.
constexpr std::size_t size_line_bytes_max = 256;
constexpr std::size_t size_digits_max = 16;

}  // namespace

Parsed ChunkedReader::fail(int status, std::string_view code, std::string_view detail) {
  refused_ = {status, code, detail};
  return Parsed::failed;
}

ChunkedReader::Progress ChunkedReader::read(char* data, std::size_t size) {
  Progress progress;
  while (progress.state == Parsed::incomplete) {
    const std::string_view rest{data + progress.consumed, size - progress.consumed};
    if (place_ == Place::data) {
      const std::size_t here =
          static_cast<std::size_t>(std::min<std::uint64_t>(left_, rest.size()));
      if (here == 0) return progress;
      std::memmove(data + progress.body, rest.data(), here);
      progress.body += here;
      progress.consumed += here;
      left_ -= here;
      if (left_ == 0) place_ = Place::data_end;
      continue;
    }
    const std::size_t line_max = place_ == Place::data_end ? 2
                                 : place_ == Place::size   ? size_line_bytes_max
                                                           : trailer_bytes_max_;
    const std::size_t end = rest.substr(0, line_max).find('\n');
    if (end == std::string_view::npos) {
      const bool is_wrong_end =
          place_ == Place::data_end && !rest.empty() && (rest[0] != '\r' || rest.size() >= 2);
      if (is_wrong_end) {
        progress.state = fail(400, "MALFORMED", "a chunk does not end where it should");
      } else if (rest.size() >= line_max) {
        progress.state = place_ == Place::size
                             ? fail(400, "MALFORMED", "the line of a chunk's size is too long")
                             : fail(431, "HEADERS_TOO_LARGE", "the trailers are too long");
      }
      return progress;
    }
    if (end == 0 || rest[end - 1] != '\r') {
      progress.state = fail(400, "MALFORMED", "a line must end with CR LF");
      return progress;
    }
    const std::string_view line = rest.substr(0, end - 1);
    progress.consumed += end + 1;
    switch (place_) {
      case Place::size:
        progress.state = read_size(line);
        break;
      case Place::trailer:
        progress.state = read_trailer(line);
        break;
      default:
        if (!line.empty()) progress.state = fail(400, "MALFORMED", "a chunk that is too long");
        place_ = Place::size;
    }
  }
  return progress;
}

Parsed ChunkedReader::read_size(std::string_view line) {
  const std::string_view digits = line.substr(0, line.find(';'));
  const std::string_view extensions = line.substr(digits.size());
  if (digits.empty() || digits.size() > size_digits_max || !std::ranges::all_of(digits, is_hex)) {
    return fail(400, "MALFORMED", "a chunk's size is not a hexadecimal number");
  }
  if (!std::ranges::all_of(extensions, is_value_character)) {
    return fail(400, "MALFORMED", "a control character in a chunk extension");
  }
  overhead_ += extensions.size();
  if (overhead_ > trailer_bytes_max_) {
    return fail(431, "HEADERS_TOO_LARGE", "the chunk extensions are too long");
  }
  std::uint64_t size = 0;
  for (const char digit : digits) size = size << 4U | static_cast<unsigned>(hex_value(digit));
  if (size > body_bytes_max_ || total_ + size > body_bytes_max_) {
    return fail(413, "PAYLOAD_TOO_LARGE", "the body is too large");
  }
  total_ += size;
  left_ = size;
  place_ = size == 0 ? Place::trailer : Place::data;
  return Parsed::incomplete;
}

/// Trailers are checked and dropped: nothing here needs one.
Parsed ChunkedReader::read_trailer(std::string_view line) {
  if (line.empty()) return Parsed::complete;
  overhead_ += line.size() + 2;
  if (overhead_ > trailer_bytes_max_) {
    return fail(431, "HEADERS_TOO_LARGE", "the trailers are too long");
  }
  if (!read_header_line(line)) return fail(400, "MALFORMED", "a trailer is not a header");
  return Parsed::incomplete;
}

}  // namespace semel::http
