// The format: a version byte, the status in two bytes, the number of headers in four, each header's name and value with
// their lengths in four bytes in front, the rest is the body. Numbers are little endian. It is stored: a change needs a
// new version.
#include "http/stored_answer.hpp"

#include <array>
#include <cstdint>

namespace semel::http {

namespace {

constexpr char version = 1;

void put_number(std::string& out, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>((number >> (8 * i)) & 0xFFU));
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size(), 4);
  out.append(text);
}

class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : left_(bytes) {}

  std::optional<std::uint64_t> number(std::size_t bytes) {
    if (left_.size() < bytes) return std::nullopt;
    std::uint64_t number = 0;
    for (std::size_t i = bytes; i-- > 0;)
      number = (number << 8U) | static_cast<unsigned char>(left_[i]);
    left_.remove_prefix(bytes);
    return number;
  }

  std::optional<std::string> text() {
    const auto size = number(4);
    if (!size || left_.size() < *size) return std::nullopt;
    std::string text(left_.substr(0, *size));
    left_.remove_prefix(*size);
    return text;
  }

  std::string_view rest() const { return left_; }

 private:
  std::string_view left_;
};

}  // namespace

bool is_kept(std::string_view header) {
  constexpr std::array<std::string_view, 19> dropped{"connection",
                                                     "keep-alive",
                                                     "proxy-connection",
                                                     "transfer-encoding",
                                                     "te",
                                                     "trailer",
                                                     "upgrade",
                                                     "content-length",
                                                     "date",
                                                     "set-cookie",
                                                     "set-cookie2",
                                                     "www-authenticate",
                                                     "proxy-authenticate",
                                                     "authentication-info",
                                                     "proxy-authentication-info",
                                                     "authorization",
                                                     "proxy-authorization",
                                                     "cookie",
                                                     "idempotency-replayed"};
  for (const std::string_view name : dropped) {
    if (same_name(name, header)) return false;
  }
  return true;
}

std::string store_answer(const Response& answer) {
  std::uint64_t kept = 0;
  for (const Header& header : answer.headers) kept += is_kept(header.name) ? 1U : 0U;
  std::string bytes(1, version);
  bytes.reserve(answer.body.size() + 64 * (answer.headers.size() + 1));
  put_number(bytes, static_cast<std::uint64_t>(answer.status), 2);
  put_number(bytes, kept, 4);
  for (const Header& header : answer.headers) {
    if (!is_kept(header.name)) continue;
    put_text(bytes, header.name);
    put_text(bytes, header.value);
  }
  return bytes.append(answer.body);
}

std::optional<Response> stored_answer(std::string_view bytes) {
  if (bytes.empty() || bytes.front() != version) return std::nullopt;
  Bytes in(bytes.substr(1));
  const auto status = in.number(2);
  const auto headers = in.number(4);
  if (!status || !headers) return std::nullopt;
  Response answer{.status = static_cast<int>(*status), .headers = {}, .body = {}};
  // A header takes eight bytes at least. One more: whoever replays it says so.
  if (*headers > in.rest().size() / 8) return std::nullopt;
  answer.headers.reserve(*headers + 1);
  for (std::uint64_t i = 0; i < *headers; ++i) {
    auto name = in.text();
    auto text = in.text();
    if (!name || !text) return std::nullopt;
    answer.headers.push_back({*std::move(name), *std::move(text)});
  }
  answer.body = in.rest();
  return answer;
}

}  // namespace semel::http
