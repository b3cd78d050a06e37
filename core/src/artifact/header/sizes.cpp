#include "artifact/header/sizes.h"

#include "gbcompress/error.h"

namespace gbcompress {

std::int64_t read_size(CborReader& in) {
  const std::int64_t n = in.integer();
  if (n < 0) in.corrupt("a size below 0");
  return n;
}

std::vector<std::int64_t> read_sizes(CborReader& in, std::int64_t most) {
  const std::int64_t n = in.array();
  if (n > most)
    throw in.error(std::to_string(n) + " numbers where at most " + std::to_string(most) +
                   " are allowed");
  std::vector<std::int64_t> result(static_cast<std::size_t>(n));
  for (auto& value : result) value = read_size(in);
  return result;
}

int read_choice(CborReader& in, std::uint64_t count) {
  const std::uint64_t n = in.unsigned_number();
  if (n >= count)
    throw Error(Errc::kUnsupported, "coding, encoding, generator or kind " + std::to_string(n) +
                                        " is unknown; upgrade gbcompress to read this file");
  return static_cast<int>(n);
}

}  // namespace gbcompress
