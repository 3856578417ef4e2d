// Requests, as a connection reads them: whatever arrives, in one piece or in two, is the same request or the same refusal.
#include "http/chunked.hpp"
#include "http/head_parser.hpp"
#include "tests/fuzz/require.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace semel::http;
using semel::fuzz::require;

constexpr std::size_t body_bytes_max = 512;

struct Outcome {
  Parsed state = Parsed::incomplete;
  int status = 0;
  std::string shown;  ///< all that a handler would see

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Reads `bytes`, of which the first `split` arrive before the others.
Outcome read(std::string_view bytes, std::size_t split) {
  HeadParser head{HeadLimits{.bytes_max = 2048, .headers_max = 20}};
  std::string buffer{bytes.substr(0, split)};
  std::string_view rest = bytes.substr(split);
  Parsed state = head.parse(buffer);
  if (state == Parsed::incomplete) {
    buffer += rest;
    rest = {};
    state = head.parse(buffer);
  }
  if (state == Parsed::incomplete) return {};
  if (state == Parsed::failed) {
    require(head.refused().status >= 400 && !head.refused().detail.empty());
    return {state, head.refused().status, ""};
  }
  require(head.length() <= buffer.size());
  require(!(head.framing().is_chunked && head.framing().content_length));

  ChunkedReader chunks{body_bytes_max, 256};
  std::size_t body_end = head.length();
  if (head.framing().is_chunked) {
    state = Parsed::incomplete;
    for (int turn = 0; turn < 2 && state == Parsed::incomplete; ++turn) {
      const auto progress = chunks.read(buffer.data() + body_end, buffer.size() - body_end);
      require(progress.body <= progress.consumed);
      body_end += progress.body;
      buffer.erase(body_end, progress.consumed - progress.body);
      state = progress.state;
      if (state == Parsed::incomplete) buffer += std::exchange(rest, {});
    }
    require(body_end - head.length() <= body_bytes_max);
  }
  if (state == Parsed::failed) return {state, chunks.refused().status, ""};
  if (state == Parsed::incomplete) return {};

  Request request;
  head.show(buffer, request);
  Outcome outcome{Parsed::complete, 0, ""};
  for (const std::string_view part :
       {request.method, request.target, request.path, request.query, request.host})
    outcome.shown.append(part).append(1, '\n');
  for (const HeaderView& each : request.headers) {
    // Nothing that could end a line or begin another.
    require(each.name.find_first_of(": \t\r\n") == std::string_view::npos && !each.name.empty());
    require(each.value.find_first_of(std::string_view{"\r\n\0", 3}) == std::string_view::npos);
    outcome.shown.append(each.name).append(1, ':').append(each.value).append(1, '\n');
  }
  outcome.shown += buffer.substr(head.length(), body_end - head.length());
  outcome.shown += head.framing().keep_alive ? 'k' : 'c';
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  const Outcome whole = read(bytes, size);
  const std::size_t step = size < 64 ? 1 : size / 16;
  for (std::size_t split = 0; split < size; split += step) require(read(bytes, split) == whole);
  return 0;
}
