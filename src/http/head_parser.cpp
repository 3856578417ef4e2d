#include "http/head_parser.hpp"

#include "http/characters.hpp"

#include <charconv>

namespace semel::http {

namespace {

constexpr auto methods = std::to_array<std::string_view>(
    {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE"});

bool is_known_method(std::string_view method) {
  return std::ranges::find(methods, method) != methods.end();
}

/// A host with an optional port; empty is allowed, as it is by RFC 9110.
bool is_host(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t close = host.find(']');
    if (close == std::string_view::npos || close == 1) return false;
    const std::string_view inside = host.substr(1, close - 1);
    if (!std::ranges::all_of(inside, [](char c) { return is_hex(c) || c == ':' || c == '.'; }))
      return false;
    host.remove_prefix(close + 1);
    if (!host.empty() && !host.starts_with(':')) return false;
  } else {
    const std::size_t colon = std::min(host.find(':'), host.size());
    if (!std::ranges::all_of(host.substr(0, colon), is_host_character)) return false;
    host.remove_prefix(colon);
  }
  if (host.empty()) return true;
  const std::string_view port = host.substr(1);
  return port.size() <= 5 && std::ranges::all_of(port, is_digit);
}

}  // namespace

std::optional<HeaderView> read_header_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!std::ranges::all_of(name, is_token_character)) return std::nullopt;
  if (!std::ranges::all_of(value, is_value_character)) return std::nullopt;
  return HeaderView{name, value};
}

void HeadParser::reset() {
  std::vector<Field> fields = std::move(fields_);
  fields.clear();
  *this = HeadParser{limits_};
  fields_ = std::move(fields);
}

Parsed HeadParser::fail(int status, std::string_view code, std::string_view detail) {
  refused_ = {status, code, detail};
  return Parsed::failed;
}

Parsed HeadParser::malformed(std::string_view detail) { return fail(400, "MALFORMED", detail); }

Parsed HeadParser::too_large(std::string_view detail) {
  return fail(431, "HEADERS_TOO_LARGE", detail);
}

HeadParser::Piece HeadParser::piece(std::string_view part) const {
  return {static_cast<std::uint32_t>(part.data() - base_), static_cast<std::uint32_t>(part.size())};
}

Parsed HeadParser::parse(std::string_view buffered) {
  base_ = buffered.data();
  has_bytes_ = has_bytes_ || !buffered.empty();
  // Something that is not HTTP, a TLS greeting for example, may never send a line's end.
  if (line_ == 0 && !buffered.empty() && buffered[0] != '\r' && !is_token_character(buffered[0])) {
    return malformed("this is not an HTTP request");
  }
  for (;;) {
    const std::size_t end = buffered.find('\n', scanned_);
    if (end == std::string_view::npos) {
      scanned_ = buffered.size();
      if (buffered.size() > limits_.bytes_max) return too_large("the headers are too long");
      return Parsed::incomplete;
    }
    if (end + 1 > limits_.bytes_max) return too_large("the headers are too long");
    if (end == line_ || buffered[end - 1] != '\r') return malformed("a line must end with CR LF");

    const std::string_view line = buffered.substr(line_, end - 1 - line_);
    line_ = end + 1;
    scanned_ = line_;
    const Parsed outcome = read_line(line);
    if (outcome != Parsed::incomplete) return outcome;
  }
}

Parsed HeadParser::read_line(std::string_view line) {
  if (method_.length == 0) {
    // RFC 9112, 2.2: some clients send an empty line behind a body.
    if (line.empty() && !skipped_empty_line_) {
      skipped_empty_line_ = true;
      return Parsed::incomplete;
    }
    return read_request_line(line);
  }
  if (line.empty()) return finish();
  return read_header(line);
}

Parsed HeadParser::read_request_line(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || first == 0) {
    return malformed("the first line must be method, target and version");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!std::ranges::all_of(method, is_token_character)) {
    return malformed("the method is not a token");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return malformed("the version must be HTTP/1.1 or HTTP/1.0");
  }
  framing_.is_1_0 = version == "HTTP/1.0";
  if (!is_known_method(method)) return fail(501, "NOT_IMPLEMENTED", "unknown method");
  if (target.empty() || !std::ranges::all_of(target, is_target_character)) {
    return malformed("the target holds characters that have to be encoded");
  }
  method_ = piece(method);
  target_ = piece(target);
  if (!read_target(method, target)) return malformed("the target is not one of this method");
  return Parsed::incomplete;
}

/// RFC 9112, 3.2: the four forms.
bool HeadParser::read_target(std::string_view method, std::string_view target) {
  if (method == "CONNECT") {
    if (!is_host(target) || target.find(':') == std::string_view::npos) return false;
    host_ = piece(target);
    host_is_targets_ = true;
    return true;
  }
  if (target == "*") {
    path_ = piece(target);
    return method == "OPTIONS";
  }
  std::string_view rest = target;
  if (!rest.starts_with('/')) {
    const std::size_t scheme = rest.find("://");
    if (scheme == std::string_view::npos) return false;
    if (!same_name(rest.substr(0, scheme), "http") && !same_name(rest.substr(0, scheme), "https"))
      return false;
    rest.remove_prefix(scheme + 3);
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
    if (authority.empty() || !is_host(authority)) return false;
    host_ = piece(authority);
    host_is_targets_ = true;
    rest.remove_prefix(authority.size());
  }
  const std::size_t question = std::min(rest.find('?'), rest.size());
  path_ = piece(rest.substr(0, question));
  if (question < rest.size()) query_ = piece(rest.substr(question + 1));
  return true;
}

Parsed HeadParser::read_header(std::string_view line) {
  if (line.front() == ' ' || line.front() == '\t') return malformed("a folded header");
  const auto header = read_header_line(line);
  if (!header) {
    // A name and a colon: then it is the value that is none.
    if (same_name(line.substr(0, line.find(':') + 1), "idempotency-key:"))
      return fail(400, "IDEMPOTENCY_KEY_INVALID", "a key has no control characters");
    return malformed("a header is not a name, a colon and a value");
  }
  if (fields_.size() == limits_.headers_max) return too_large("too many headers");
  fields_.push_back({piece(header->name), piece(header->value)});
  return note(*header, fields_.back());
}

Parsed HeadParser::note(const HeaderView& header, const Field& field) {
  switch (header.name.size()) {
    case 4:
      if (same_name(header.name, "host")) return note_host(field, header.value);
      break;
    case 6:
      if (same_name(header.name, "expect")) return note_expect(header.value);
      break;
    case 10:
      if (same_name(header.name, "connection")) note_connection(header.value);
      break;
    case 14:
      if (same_name(header.name, "content-length")) return note_length(header.value);
      break;
    case 17:
      if (same_name(header.name, "transfer-encoding")) return note_coding(header.value);
      break;
    default:
      break;
  }
  return Parsed::incomplete;
}

Parsed HeadParser::note_host(const Field& field, std::string_view value) {
  if (has_host_) return malformed("two Host headers");
  has_host_ = true;
  if (!is_host(value)) return malformed("the Host header is not a host");
  if (!host_is_targets_)
    host_ = field.value;  // RFC 9112, 3.2.2: the target's is the one that counts
  return Parsed::incomplete;
}

Parsed HeadParser::note_length(std::string_view value) {
  if (framing_.content_length) return malformed("two Content-Length headers");
  // Eighteen digits always fit.
  if (value.empty() || value.size() > 18 || !std::ranges::all_of(value, is_digit)) {
    return malformed("the Content-Length is not a number");
  }
  std::uint64_t length = 0;
  std::from_chars(value.data(), value.data() + value.size(), length);
  framing_.content_length = length;
  return Parsed::incomplete;
}

Parsed HeadParser::note_coding(std::string_view value) {
  if (has_coding_) return malformed("two Transfer-Encoding headers");
  has_coding_ = true;
  for_each_element(value, [&](std::string_view coding) {
    if (same_name(coding, "chunked")) {
      if (framing_.is_chunked) refused_ = {400, "MALFORMED", "chunked twice"};
      framing_.is_chunked = true;
    } else if (framing_.is_chunked) {
      refused_ = {400, "MALFORMED", "chunked must be the last transfer coding"};
    } else {
      is_refusable_later_ = true;
    }
  });
  if (!refused_.detail.empty()) return Parsed::failed;
  if (!is_refusable_later_ && !framing_.is_chunked)
    return malformed("an empty Transfer-Encoding header");
  return Parsed::incomplete;
}

Parsed HeadParser::note_expect(std::string_view value) {
  if (!same_name(value, "100-continue"))
    return fail(417, "EXPECTATION_FAILED", "an expectation that nobody here can meet");
  framing_.expects_continue = true;
  return Parsed::incomplete;
}

void HeadParser::note_connection(std::string_view value) {
  for_each_element(value, [&](std::string_view option) {
    says_close_ = says_close_ || same_name(option, "close");
    says_keep_alive_ = says_keep_alive_ || same_name(option, "keep-alive");
  });
}

Parsed HeadParser::finish() {
  if (!has_host_ && !framing_.is_1_0) return malformed("no Host header");
  if (has_coding_ && framing_.content_length) {
    return malformed("Content-Length and Transfer-Encoding");
  }
  if (has_coding_ && framing_.is_1_0) return malformed("HTTP/1.0 has no Transfer-Encoding");
  if (is_refusable_later_) return fail(501, "NOT_IMPLEMENTED", "unknown transfer coding");
  if (framing_.is_1_0) framing_.expects_continue = false;
  framing_.keep_alive = !says_close_ && (!framing_.is_1_0 || says_keep_alive_);
  return Parsed::complete;
}

void HeadParser::show(std::string_view buffered, Request& request) const {
  request.method = method_.in(buffered);
  request.target = target_.in(buffered);
  request.path = path_.in(buffered);
  // An absolute target may stop behind the host.
  if (request.path.empty() && request.method != "CONNECT") request.path = "/";
  request.query = query_.in(buffered);
  request.host = host_.in(buffered);
  request.headers.clear();
  for (const Field& field : fields_) {
    request.headers.push_back({field.name.in(buffered), field.value.in(buffered)});
  }
  request.body = {};
  request.has_body = framing_.has_body();
}

}  // namespace semel::http
