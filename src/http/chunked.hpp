// Bodies whose length nobody knew in advance: chunks, each behind its size (RFC 9112, 7.1).
#pragma once

#include "http/head_parser.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace semel::http {

/// Decodes a chunked body where it lies: the data of the chunks is moved together, over their framing.
class ChunkedReader {
 public:
  ChunkedReader(std::size_t body_bytes_max, std::size_t trailer_bytes_max)
      : body_bytes_max_(body_bytes_max), trailer_bytes_max_(trailer_bytes_max) {}

  struct Progress {
    Parsed state = Parsed::incomplete;
    std::size_t consumed = 0;  ///< of the input, framing included
    std::size_t body = 0;      ///< bytes of data, now at the beginning of the input
  };

  /// Reads on in `data` and moves what is data to its beginning. Whoever calls takes that away (or leaves it in place and
  /// calls the next time with what follows `consumed`); bytes beyond `consumed` are not touched.
  Progress read(char* data, std::size_t size);

  const Refused& refused() const { return refused_; }

 private:
  enum class Place { size, data, data_end, trailer };

  Parsed fail(int status, std::string_view code, std::string_view detail);
  Parsed read_size(std::string_view line);
  Parsed read_trailer(std::string_view line);

  std::size_t body_bytes_max_;
  std::size_t trailer_bytes_max_;
  Place place_ = Place::size;
  std::uint64_t left_ = 0;    ///< of this chunk
  std::uint64_t total_ = 0;   ///< of all chunks begun so far
  std::size_t overhead_ = 0;  ///< bytes of extensions and trailers
  Refused refused_;
};

}  // namespace semel::http
