// The rate of the C++ library's decoder beside that of libgbz: see rate.c. Each tensor in its own
// type, one thread.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "gbcompress/decode.h"

int main(int count, char** arguments) {
  using namespace gbcompress;
  if (count < 2) return std::fprintf(stderr, "usage: rate_library FILE.gbz [TIMES]\n"), 2;
  const int times = count > 2 ? std::atoi(arguments[2]) : 9;
  double least = 1e9;
  std::size_t all = 0;
  for (int run = 0; run < times; ++run) {
    const ArtifactReader reader = ArtifactReader::open(arguments[1]);
    double taken = 0;
    all = 0;
    for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
      const ArtifactTensor& tensor = reader.tensors()[i];
      std::int64_t bits = dtype_bits(tensor.dtype);
      for (const std::int64_t side : tensor.shape) bits *= side;
      std::vector<std::byte> out(static_cast<std::size_t>(bits / 8));
      const std::clock_t begin = std::clock();
      read_into(reader, i, tensor.dtype, out, {.threads = 1});
      taken += static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      all += out.size();
    }
    least = std::min(least, taken);
  }
  std::printf(
      "{\"library\": \"gbcompress\", \"bytes\": %zu, \"milliseconds\": %.2f, "
      "\"gigabytes_a_second\": %.3f}\n",
      all, 1e3 * least, 1e-9 * static_cast<double>(all) / least);
  return 0;
}
