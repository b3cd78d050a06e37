// Matrices of integers of a fixed width, and products with them.
#include "artifact/integers/fixed_width.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "codec/lanes/decode_block.h"
#include "gbcompress/error.h"
#include "module.h"

namespace gbcompress::python {
namespace {

/// @param x   [tokens * columns]
/// @param to  [tokens * rows]
void multiply(const FixedWidthMatrix& matrix, const Input<float>& x, const InOut<float>& to,
              int threads) {
  const auto tokens = static_cast<std::int64_t>(x.size()) / matrix.cols();
  if (static_cast<std::int64_t>(x.size()) != tokens * matrix.cols() ||
      static_cast<std::int64_t>(to.size()) != tokens * matrix.rows())
    throw Error(Errc::kShapeMismatch,
                "a matrix of " + std::to_string(matrix.rows()) + " rows and " +
                    std::to_string(matrix.cols()) + " columns is not multiplied with " +
                    std::to_string(x.size()) + " numbers to make " + std::to_string(to.size()));
  const nb::gil_scoped_release release;
  matrix.multiply(span_of(x), tokens, span_of(to), threads);
}

template <typename To>
void read_as(const FixedWidthMatrix& matrix, std::span<const std::int64_t> wanted,
             std::span<std::uint8_t> bytes, int threads) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % sizeof(To) != 0)
    throw Error(Errc::kUsage, "the memory for the rows is not aligned to their elements");
  if (bytes.size() != wanted.size() * static_cast<std::size_t>(matrix.cols()) * sizeof(To))
    throw Error(Errc::kShapeMismatch, "the memory for " + std::to_string(wanted.size()) +
                                          " rows of " + std::to_string(matrix.cols()) +
                                          " numbers has " + std::to_string(bytes.size()) +
                                          " bytes");
  const nb::gil_scoped_release release;
  matrix.read(wanted, std::span(reinterpret_cast<To*>(bytes.data()), bytes.size() / sizeof(To)),
              threads);
}

/// @param rows   indices
/// @param dtype  F32, BF16 or F16
/// @param to     [rows * columns] elements
void read(const FixedWidthMatrix& matrix, const Input<std::int64_t>& rows, const std::string& dtype,
          const InOut<std::uint8_t>& to, int threads) {
  const auto wanted = span_of(rows);
  if (std::ranges::any_of(wanted, [&](std::int64_t r) { return r < 0 || r >= matrix.rows(); }))
    throw nb::index_error("a row is beyond the matrix");
  if (dtype == "F32") return read_as<float>(matrix, wanted, span_of(to), threads);
  if (dtype == "BF16") return read_as<codec::lanes::Bfloat16>(matrix, wanted, span_of(to), threads);
  if (dtype == "F16") return read_as<codec::lanes::Float16>(matrix, wanted, span_of(to), threads);
  throw Error(Errc::kUsage, "rows are read as F32, BF16 or F16, not as " + dtype);
}

}  // namespace

void bind_fixed_width(nb::module_& module) {
  nb::class_<FixedWidthMatrix>(module, "FixedWidthMatrix")
      .def_prop_ro("rows", &FixedWidthMatrix::rows)
      .def_prop_ro("cols", &FixedWidthMatrix::cols)
      .def_prop_ro("bits", &FixedWidthMatrix::bits)
      .def_prop_ro("bytes", &FixedWidthMatrix::bytes)
      .def("multiply", &multiply, nb::arg("x"), nb::arg("to"), nb::arg("threads") = 0)
      .def("read", &read, nb::arg("rows"), nb::arg("dtype"), nb::arg("to"), nb::arg("threads") = 0);
}

}  // namespace gbcompress::python
