// A file written tensor by tensor, of integers that Python trained.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>
#include <utility>

#include "artifact/copied.h"
#include "artifact/sections/float_code.h"
#include "gbcompress/artifact.h"
#include "gbcompress/error.h"
#include "gnets.h"
#include "module.h"
#include "optim/coded_gnets.h"

namespace gbcompress::python {
namespace {

using Shape = std::vector<std::int64_t>;

DType dtype_of(const std::string& name) {
  const auto dtype = parse_dtype(name);
  if (!dtype) throw Error(Errc::kUnsupported, "there is no element type " + name);
  return *dtype;
}

class Writer {
 public:
  explicit Writer(const std::string& settings) : writer_("", settings) {}

  void add_coded(const std::string& name, const std::string& dtype, const Shape& shape,
                 const Input<std::int32_t>& integers, int step,
                 const std::vector<std::int32_t>& row_steps) {
    CodedValues values{.grid = default_grid(shape), .step = step, .row_steps = row_steps};
    const auto from = span_of(integers);
    values.integers.assign(from.begin(), from.end());
    writer_.add_coded(name, dtype_of(dtype), shape, std::move(values));
  }

  /// @return false where the numbers cannot be short floats
  bool add_short_floats(const std::string& name, const std::string& dtype, const Shape& shape,
                        const Input<float>& numbers, int mantissa_bits) {
    if (!fits_short_floats(span_of(numbers))) return false;
    writer_.add_coded(name, dtype_of(dtype), shape,
                      float_coded(default_grid(shape), span_of(numbers), mantissa_bits));
    return true;
  }

  void add_plain(const std::string& name, const std::string& dtype, const Shape& shape,
                 const Bytes& bytes) {
    writer_.add_plain(name, dtype_of(dtype), shape, std::as_bytes(span_of(bytes)));
  }

  /// The g-nets as they are rounded in the file. @return their rounded parameters
  Output<float> add_generated(const std::string& name, const std::string& dtype, const Shape& shape,
                              const GNetSpec& spec, const std::string& coding,
                              const Input<float>& theta) {
    std::vector<float> rounded = round_trip(spec, coding_of(coding), span_of(theta));
    writer_.add_generated(name, dtype_of(dtype), shape, spec, coding_of(coding), rounded);
    return to_numpy<float>(std::move(rounded));
  }

  /// The g-nets as integers times their steps.
  void add_generated_coded(const std::string& name, const std::string& dtype, const Shape& shape,
                           const CodedGnets& gnets) {
    writer_.add_generated_coded(name, dtype_of(dtype), shape, gnets.spec(), gnets.coded());
  }

  void add_constant(const std::string& name, const std::string& dtype, const Shape& shape,
                    const Bytes& element) {
    writer_.add_constant(name, dtype_of(dtype), shape, std::as_bytes(span_of(element)));
  }

  void add_tied(const std::string& name, const std::string& to) { writer_.add_tied(name, to); }

  std::int64_t size() const {
    const nb::gil_scoped_release release;
    return writer_.size();
  }

  std::vector<double> tensor_bits() const {
    const nb::gil_scoped_release release;
    return ArtifactReader::from_bytes(writer_.encode(), "the model").tensor_bits();
  }

  std::int64_t write(const std::string& path, bool overwrite) const {
    const nb::gil_scoped_release release;
    return writer_.write(path, overwrite);
  }

 private:
  ArtifactWriter writer_;
};

/// The tensors of several files, of one profile, in one.
/// @param replaced  values of tensors, which become short floats of `mantissa_bits` bits
/// @return bytes written. @throws as ArtifactReader::open() and ArtifactWriter
std::int64_t join(const std::vector<std::string>& files, const std::string& path,
                  const std::string& settings, bool overwrite,
                  const std::vector<std::pair<std::string, Input<float>>>& replaced,
                  int mantissa_bits) {
  Replacements values{.values = {}, .mantissa_bits = mantissa_bits};
  for (const auto& [name, array] : replaced) values.values.emplace(name, span_of(array));
  const nb::gil_scoped_release release;
  ArtifactWriter writer("", settings);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  writer.spool_in(folder.empty() ? "." : folder);
  for (const std::string& file : files) {
    const ArtifactReader reader = ArtifactReader::open(file);
    if (reader.profile() == CodecProfile::kLanes) writer.set_profile(CodecProfile::kLanes);
    add_copied(writer, reader, values);
  }
  return writer.write(path, overwrite);
}

/// What the numbers become as short floats of so many bits.
Output<float> short_floats(const Shape& shape, const Input<float>& numbers, int mantissa_bits) {
  return to_numpy<float>(
      coded_floats(float_coded(default_grid(shape), span_of(numbers), mantissa_bits)));
}

}  // namespace

void bind_writer(nb::module_& module) {
  nb::class_<Writer>(module, "Writer")
      .def(nb::init<const std::string&>(), nb::arg("settings"))
      .def("add_coded", &Writer::add_coded)
      .def("add_short_floats", &Writer::add_short_floats)
      .def("add_plain", &Writer::add_plain)
      .def("add_generated", &Writer::add_generated)
      .def("add_generated_coded", &Writer::add_generated_coded)
      .def("add_constant", &Writer::add_constant)
      .def("add_tied", &Writer::add_tied)
      .def("size", &Writer::size)
      .def("tensor_bits", &Writer::tensor_bits)
      .def("write", &Writer::write);
  module.def("join", &join, nb::arg("files"), nb::arg("path"), nb::arg("settings"),
             nb::arg("overwrite"),
             nb::arg("replaced") = std::vector<std::pair<std::string, Input<float>>>(),
             nb::arg("mantissa_bits") = 0);
  module.def("short_floats", &short_floats);
}

}  // namespace gbcompress::python
