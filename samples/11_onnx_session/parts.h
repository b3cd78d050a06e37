#pragma once
/// The ONNX model of a .gbz file in memory: the model's bytes without its large weights, and these
/// beside it.

#include <gbz.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct Weights {
  std::string name;      ///< of the initializer
  std::string location;  ///< the file of external data that the model names
  int type;              ///< a number of ONNX's TensorProto.DataType
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;  ///< row-major and little-endian; aligned to its elements
};

struct Parts {
  std::vector<std::byte> model;
  std::vector<Weights> weights;
};

/// @param least  bytes from which on weights lie beside the model; ONNX Runtime reads small ones,
/// such as shapes, in it
/// @throws std::runtime_error  where the file cannot be read, is damaged, or was not made of an
/// ONNX model
Parts decode_parts(const std::string& filename, std::uint64_t least = 4096);
