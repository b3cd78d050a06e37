// Matrices of integers of a fixed width, and products with them.
#include "artifact/integers/fixed_width.h"

#include <algorithm>
#include <cstdint>

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

/// @param rows  indices
/// @param to    [rows * columns]
void read(const FixedWidthMatrix& matrix, const Input<std::int64_t>& rows, const InOut<float>& to,
          int threads) {
  const auto wanted = span_of(rows);
  if (std::ranges::any_of(wanted, [&](std::int64_t r) { return r < 0 || r >= matrix.rows(); }))
    throw nb::index_error("a row is beyond the matrix");
  if (static_cast<std::int64_t>(to.size()) !=
      static_cast<std::int64_t>(wanted.size()) * matrix.cols())
    throw Error(Errc::kShapeMismatch, "the memory for " + std::to_string(wanted.size()) +
                                          " rows of " + std::to_string(matrix.cols()) +
                                          " numbers has " + std::to_string(to.size()));
  const nb::gil_scoped_release release;
  matrix.read(wanted, span_of(to), threads);
}

}  // namespace

void bind_fixed_width(nb::module_& module) {
  nb::class_<FixedWidthMatrix>(module, "FixedWidthMatrix")
      .def_prop_ro("rows", &FixedWidthMatrix::rows)
      .def_prop_ro("cols", &FixedWidthMatrix::cols)
      .def_prop_ro("bits", &FixedWidthMatrix::bits)
      .def_prop_ro("bytes", &FixedWidthMatrix::bytes)
      .def("multiply", &multiply, nb::arg("x"), nb::arg("to"), nb::arg("threads") = 0)
      .def("read", &read, nb::arg("rows"), nb::arg("to"), nb::arg("threads") = 0);
}

}  // namespace gbcompress::python
