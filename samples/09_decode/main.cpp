// Decodes a .gbz file in memory, without LibTorch: decode FILE.gbz
#include <gbcompress/decode.h>
#include <gbcompress/error.h>

#include <cmath>
#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: decode FILE.gbz\n", stderr), 2;
  const auto file = gbcompress::ArtifactReader::open(argv[1]);
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const gbcompress::ArtifactTensor& tensor = file.tensors()[i];
    const gbcompress::DecodedTensor decoded = gbcompress::decode_elements(file, i);
    std::printf("%s", tensor.name.c_str());
    for (const std::int64_t side : tensor.shape) std::printf(" %lld", static_cast<long long>(side));
    if (tensor.dtype == gbcompress::DType::kF32) {
      double squares = 0;
      const std::vector<float> values = decoded.floats();
      for (const float value : values) squares += double{value} * value;
      std::printf(": %zu float32 values, norm %.6g\n", values.size(), std::sqrt(squares));
    } else {  // row-major and little-endian, in the tensor's own element type
      std::printf(": %zu bytes\n", decoded.bytes().size());
    }
  }
} catch (const gbcompress::Error& error) {
  std::fprintf(stderr, "decode: %s\n", error.what());
  return 1;
}
