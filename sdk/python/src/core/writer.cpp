// A file written tensor by tensor, of integers that Python trained.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "artifact/sections/float_code.h"
#include "gbcompress/artifact.h"
#include "gbcompress/error.h"
#include "module.h"

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

/// A coded tensor of another file, its integers as they are.
void add_integers(ArtifactWriter& writer, const ArtifactTensor& tensor, CodedValues values,
                  bool lanes) {
  if (!lanes) return writer.add_coded(tensor.name, tensor.dtype, tensor.shape, std::move(values));
  std::vector<std::byte> section = encode_section(values);
  writer.add_coded_section(tensor.name, tensor.dtype, tensor.shape, values, std::move(section));
}

/// Values of tensors, as short floats of so many mantissa bits.
struct Replacements {
  std::map<std::string, std::span<const float>> values;  ///< by name
  int mantissa_bits = 0;
};

/// @param replaced  instead of the reader's values, unless they cannot be short floats
void add_all(ArtifactWriter& writer, const ArtifactReader& reader, const Replacements& replaced) {
  const bool lanes = reader.profile() == CodecProfile::kLanes;
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    if (const auto other = replaced.values.find(tensor.name);
        other != replaced.values.end() && fits_short_floats(other->second)) {
      add_integers(writer, tensor,
                   float_coded(default_grid(tensor.shape), other->second, replaced.mantissa_bits),
                   lanes);
      continue;
    }
    switch (tensor.kind) {
      case TensorKind::kExact:
        writer.add_plain(tensor.name, tensor.dtype, tensor.shape, reader.plain(i));
        break;
      case TensorKind::kConstant:
        writer.add_constant(tensor.name, tensor.dtype, tensor.shape, reader.constant(i));
        break;
      case TensorKind::kTied:
        writer.add_tied(tensor.name, tensor.tied_to);
        break;
      case TensorKind::kQuantized:
        add_integers(writer, tensor, reader.coded(i), lanes);
        break;
      default:
        throw Error(Errc::kUnsupported, printable(tensor.name) +
                                            " is made by g-nets or a base; only files without "
                                            "either are joined");
    }
  }
}

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
    add_all(writer, reader, values);
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
