#include "http/proxy_headers.hpp"

#include "http/characters.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace semel::http {

namespace {

constexpr std::string_view line_end = "\r\n";

/// Room for most heads, so that they need not grow to it.
constexpr std::size_t head_reserve = 1024;

constexpr auto hop_by_hop = std::to_array<std::string_view>(
    {"connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
     "te", "trailer", "transfer-encoding", "upgrade"});

/// Written anew in a request.
constexpr auto rewritten = std::to_array<std::string_view>(
    {"host", "content-length", "expect", "x-forwarded-for", "x-forwarded-proto"});

template <class Names>
bool is_one_of(std::string_view name, const Names& names) {
  return std::ranges::any_of(names, [&](std::string_view each) { return same_name(each, name); });
}

/// What the sender says belongs to its connection alone.
template <class Headers>
std::vector<std::string_view> named_by_connection(const Headers& headers) {
  std::vector<std::string_view> names;
  for (const auto& header : headers) {
    if (same_name(header.name, "connection"))
      for_each_element(header.value, [&](std::string_view name) { names.push_back(name); });
  }
  return names;
}

void append(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append(line_end);
}

/// Behind whatever the client says about earlier hops.
void append_to_list(std::string& out, std::string_view name, const Request& request,
                    std::string_view last) {
  out.append(name).append(": ");
  for (const HeaderView& header : request.headers) {
    if (same_name(header.name, name) && !header.value.empty())
      out.append(header.value).append(", ");
  }
  out.append(last).append(line_end);
}

void append_forwarded(std::string& out, const Request& request) {
  append_to_list(out, "X-Forwarded-For", request,
                 request.peer.empty() ? std::string_view{"unknown"} : request.peer);
  append_to_list(out, "X-Forwarded-Proto", request, "http");
}

/// In origin form, whatever the client's: the server is no proxy.
void append_target(std::string& out, const Request& request, const Origin& origin) {
  if (request.path != "*") out += origin.base;
  out += request.path;
  const std::size_t query = request.target.find('?');
  if (query != std::string_view::npos) out += request.target.substr(query);
}

}  // namespace

std::string forwarded_head(const Request& request, const Origin& origin,
                           const ForwardedBody& body) {
  const auto named = named_by_connection(request.headers);
  std::string out;
  out.reserve(head_reserve);
  out += request.method;
  out += ' ';
  append_target(out, request, origin);
  out += " HTTP/1.1\r\n";
  append(out, "Host", request.host.empty() ? std::string_view{origin.authority} : request.host);
  for (const HeaderView& header : request.headers) {
    if (is_one_of(header.name, hop_by_hop) || is_one_of(header.name, rewritten) ||
        is_one_of(header.name, named) || same_name(header.name, "idempotency-replayed"))
      continue;
    append(out, header.name, header.value);
  }
  append_forwarded(out, request);
  if (body.length) append(out, "Content-Length", std::to_string(*body.length));
  if (body.is_chunked) append(out, "Transfer-Encoding", "chunked");
  return out.append(line_end);
}

std::string auth_check_head(const Request& request, const Origin& origin,
                            const std::string& scope_header) {
  std::string out = "GET " + (origin.base.empty() ? "/" : origin.base) + " HTTP/1.1\r\n";
  append(out, "Host", origin.authority);
  for (const HeaderView& header : request.headers) {
    if (same_name(header.name, "authorization") || same_name(header.name, "cookie") ||
        same_name(header.name, scope_header))
      append(out, header.name, header.value);
  }
  append_forwarded(out, request);
  return out.append(line_end);
}

Response passed_on(AnswerHead head) {
  const auto named = named_by_connection(head.headers);  // of headers that stay where they are
  Response answer{.status = head.status, .headers = {}, .body = {}};
  answer.headers.reserve(head.headers.size());
  for (Header& header : head.headers) {
    if (is_one_of(header.name, hop_by_hop) || is_one_of(header.name, named) ||
        same_name(header.name, "content-length") || same_name(header.name, "idempotency-replayed"))
      continue;
    answer.headers.push_back(std::move(header));
  }
  return answer;
}

}  // namespace semel::http
