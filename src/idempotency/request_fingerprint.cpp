#include "idempotency/request_fingerprint.hpp"

#include "idempotency/fingerprint.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace semel::idempotency {

namespace {

std::string sorted_query(std::string_view query) {
  std::vector<std::string_view> parameters;
  for (std::size_t begin = 0; begin <= query.size();) {
    const std::size_t end = std::min(query.find('&', begin), query.size());
    parameters.push_back(query.substr(begin, end - begin));
    begin = end + 1;
  }
  // Those of one name in the order they came: that of their places.
  std::ranges::sort(parameters, {}, [](std::string_view parameter) {
    return std::pair{parameter.substr(0, parameter.find('=')), parameter.data()};
  });
  std::string sorted;
  sorted.reserve(query.size() + 1);
  for (const std::string_view parameter : parameters) {
    sorted += parameter;
    sorted += '&';
  }
  return sorted;
}

}  // namespace

std::string media_type(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  const auto begin = content_type.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  content_type = content_type.substr(begin, content_type.find_last_not_of(" \t") - begin + 1);
  std::string type{content_type};
  std::ranges::transform(type, type.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return type;
}

bool is_json(std::string_view media_type) {
  return media_type == "application/json" || media_type.ends_with("+json");
}

std::string request_fingerprint(const Compared& compared, const RequestParts& request) {
  if (compared == Compared::nothing()) return {};
  Fingerprint fingerprint;
  fingerprint.add("request");
  const std::string type = media_type(request.content_type);
  // Each part under its name, so that a policy that compares less is never mistaken for one that compares more.
  if (compared.method) fingerprint.add("method").add(request.method);
  if (compared.path) fingerprint.add("path").add(request.path);
  if (compared.query) {
    fingerprint.add("query");
    // One parameter is sorted, and so is none.
    if (request.query.find('&') == std::string_view::npos) {
      fingerprint.add(request.query, "&");
    } else {
      fingerprint.add(sorted_query(request.query));
    }
  }
  if (compared.media_type) fingerprint.add("type").add(type);
  switch (compared.body) {
    case BodyComparison::json:
      if (is_json(type) && !request.is_encoded) {
        fingerprint.add("json").add_json(request.body);
      } else {
        fingerprint.add("bytes").add(request.body);
      }
      break;
    case BodyComparison::raw:
      fingerprint.add("bytes").add(request.body);
      break;
    case BodyComparison::none:
      break;
  }
  return fingerprint.digest();
}

}  // namespace semel::idempotency
