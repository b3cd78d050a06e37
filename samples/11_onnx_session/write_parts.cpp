// Writes the model of a .gbz file and its large weights as files of external data: write_parts
// MODEL.gbz FOLDER
#include <cstdio>
#include <exception>
#include <fstream>
#include <span>

#include "parts.h"

namespace {

void write(const std::string& filename, std::span<const std::byte> bytes) {
  std::ofstream out(filename, std::ios::binary);
  out.exceptions(std::ios::failbit | std::ios::badbit);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return std::fputs("usage: write_parts MODEL.gbz FOLDER\n", stderr), 2;
  const Parts parts = decode_parts(argv[1]);
  write(argv[2] + std::string("/model.onnx"), parts.model);
  for (const Weights& each : parts.weights) {
    write(argv[2] + ("/" + each.location), each.data);
    std::printf("%s\t%s\t%d", each.name.c_str(), each.location.c_str(), each.type);
    for (const std::int64_t side : each.shape) std::printf("\t%lld", static_cast<long long>(side));
    std::printf("\n");
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_parts: %s\n", error.what());
  return 1;
}
