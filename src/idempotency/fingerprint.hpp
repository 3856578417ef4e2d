// Fingerprints tell whether two requests ask for the same thing: SHA-256 over the version tag
// "semel-fp-1" and the parts of a request, each preceded by its length in eight bytes, little
// endian. They are stored; a change of what goes into them needs a new tag.
#pragma once

#include "base/sha256.hpp"

#include <string>
#include <string_view>

namespace semel::idempotency {

/// Collects the parts of a request. Parts do not run into each other: "ab", "c" is not "a", "bc".
class Fingerprint {
 public:
  Fingerprint();

  Fingerprint& add(std::string_view part) { return add(part, {}); }

  /// Both as one part.
  Fingerprint& add(std::string_view begin, std::string_view end);

  /// Adds JSON text so that texts that mean the same count as the same.
  Fingerprint& add_json(std::string_view json);

  /// The 32 bytes of the digest. More parts may be added afterwards.
  std::string digest() const;

 private:
  std::string parts_;
};

using base::sha256;
using base::sha256_hex;

/// What a start asks for: the workflow's name and its arguments, as `value::canonical_of` writes
/// them.
std::string start_fingerprint(std::string_view workflow, std::string_view canonical_args);

/// The canonical form of JSON text, or the bytes as they are where there is none: not JSON, or a
/// member's name repeated. The first byte tells one from the other, so that neither can pass for
/// the other.
std::string canonical_or_raw(std::string_view json);

}  // namespace semel::idempotency
