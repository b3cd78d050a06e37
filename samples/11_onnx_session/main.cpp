// Runs the ONNX model of a .gbz file on rows of float32 from standard input and writes the output:
// onnx_session MODEL.gbz
#include <cstdio>
#include <exception>

#include "session.h"

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: onnx_session MODEL.gbz < INPUT > OUTPUT\n", stderr), 2;
  Session session(argv[1]);
  std::vector<float> input;
  float buffer[4096];
  while (const std::size_t count = std::fread(buffer, sizeof(float), 4096, stdin))
    input.insert(input.end(), buffer, buffer + count);
  const std::vector<float> output = session.run(input);
  if (std::fwrite(output.data(), sizeof(float), output.size(), stdout) != output.size()) return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "onnx_session: %s\n", error.what());
  return 1;
}
