#include "parts.h"

#include <fstream>
#include <memory>
#include <stdexcept>

namespace {

std::vector<std::byte> read(const std::string& filename) {
  std::ifstream in(filename, std::ios::binary | std::ios::ate);
  std::vector<std::byte> bytes(in ? static_cast<std::size_t>(in.tellg()) : 0);
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw std::runtime_error(filename + " cannot be read");
  return bytes;
}

}  // namespace

Parts decode_parts(const std::string& filename, std::uint64_t least) {
  const std::vector<std::byte> bytes = read(filename);
  gbz_error error;
  const auto check = [&](gbz_status status) {
    if (status != GBZ_OK) throw std::runtime_error(filename + ": " + error.text);
  };
  gbz_file* opened = nullptr;
  check(gbz_open(bytes.data(), bytes.size(), nullptr, &opened, &error));
  const std::unique_ptr<gbz_file, decltype(&gbz_close)> file(opened, gbz_close);

  Parts parts;
  std::size_t count = 0;
  std::uint64_t size = 0;
  check(gbz_onnx_split(file.get(), least, &count, &size, &error));
  for (std::size_t i = 0; i < count; ++i) {
    const gbz_initializer& told = *gbz_onnx_initializer(file.get(), i);
    parts.weights.push_back({told.name, told.location, told.type,
                             std::vector(told.shape, told.shape + told.rank),
                             std::vector<std::byte>(told.bytes)});
    check(gbz_onnx_read(file.get(), i, parts.weights.back().data.data(), told.bytes, &error));
  }
  parts.model.resize(size);
  check(gbz_onnx_graph(file.get(), parts.model.data(), size, &error));
  return parts;
}
