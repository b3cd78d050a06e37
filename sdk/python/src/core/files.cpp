// Reading .gbz files.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "module.h"

namespace gbcompress::python {
namespace {

class File {
 public:
  /// @param base  the model that a delta is the difference from
  File(const std::string& path, std::optional<std::int64_t> max_output,
       const std::optional<std::string>& base)
      : path_(path), reader_(open(path, max_output)) {
    if (base) {
      const nb::gil_scoped_release release;
      base_ = BaseModel::open(*base, limits(max_output)).source_for(reader_);
    }
    for (std::size_t i = 0; i < reader_.tensors().size(); ++i)
      index_.emplace(reader_.tensors()[i].name, i);
  }

  const ArtifactReader& reader() const { return reader_; }

  std::size_t at(std::size_t index) const {
    if (index >= reader_.tensors().size()) throw nb::index_error("there is no such tensor");
    return index;
  }

  /// @throws Error(kUnsupported) naming the first tensor whose layer type needs its plugin;
  ///         Error(kUsage) for a delta without its base
  void check_readable() const {
    if (!base_ && !reader_.base().empty())
      throw Error(
          Errc::kUsage,
          printable(path_) + " holds what changed since another model; name that one: base=FILE");
    for (const ArtifactTensor& tensor : reader_.tensors())
      if (has_plan(tensor.kind)) place_only(tensor);
  }

  nb::list tensors() const {
    nb::list list;
    for (const ArtifactTensor& tensor : reader_.tensors()) {
      nb::dict entry;
      entry["name"] = tensor.name;
      entry["dtype"] = std::string(dtype_name(tensor.dtype));
      entry["shape"] = nb::tuple(nb::cast(tensor.shape));
      entry["kind"] = std::string(kind_name(tensor.kind));
      entry["tied_to"] = tensor.kind == TensorKind::kTied
                             ? nb::object(nb::cast(index_.at(tensor.tied_to)))
                             : nb::object(nb::none());
      entry["on_base"] = tensor.kind == TensorKind::kBase || tensor.on_base;
      entry["plugin"] =
          is_placed(tensor) ? nb::object(nb::none()) : nb::object(nb::cast(tensor.plan.type_id));
      const bool stepped = (tensor.kind == TensorKind::kCoded && tensor.mantissa_bits == 0 &&
                            is_real(tensor.dtype)) ||
                           tensor.kind == TensorKind::kResidual;
      entry["step"] =
          stepped ? nb::object(nb::cast(step_size(tensor.step))) : nb::object(nb::none());
      list.append(entry);
    }
    return list;
  }

  nb::object decode(std::size_t index, int threads) const {
    at(index);
    DecodedTensor decoded;
    {
      const nb::gil_scoped_release release;
      decoded = decode_elements(reader_, index, {.base = base_, .threads = threads});
    }
    if (decoded.floats.empty()) return nb::cast(to_numpy<std::uint8_t>(std::move(decoded.others)));
    return nb::cast(to_numpy<float>(std::move(decoded.floats)));
  }

  std::vector<double> tensor_bits() const {
    const nb::gil_scoped_release release;
    return reader_.tensor_bits();
  }

  /// The integers of a coded tensor [rows * cols], the index of its step, offsets of its rows.
  nb::tuple coded(std::size_t index) const {
    at(index);
    CodedValues values;
    {
      const nb::gil_scoped_release release;
      values = reader_.coded(index);
    }
    return nb::make_tuple(to_numpy<std::int32_t>(std::move(values.integers)), values.step,
                          to_numpy<std::int32_t>(std::move(values.row_steps)), values.mantissa_bits,
                          values.grid.dependent);
  }

 private:
  static ArtifactLimits limits(std::optional<std::int64_t> max_output) {
    ArtifactLimits limits;
    if (max_output) limits.output_bytes = *max_output;
    return limits;
  }
  static ArtifactReader open(const std::string& path, std::optional<std::int64_t> max_output) {
    const nb::gil_scoped_release release;
    return ArtifactReader::open(path, limits(max_output));
  }

  std::string path_;
  ArtifactReader reader_;
  std::function<std::span<const std::byte>(const ArtifactTensor&)> base_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace

void bind_files(nb::module_& module) {
  nb::class_<File>(module, "File")
      .def(nb::init<const std::string&, std::optional<std::int64_t>,
                    const std::optional<std::string>&>(),
           nb::arg("path"), nb::arg("max_output").none() = nb::none(),
           nb::arg("base").none() = nb::none())
      .def_prop_ro("arch", [](const File& file) { return file.reader().arch(); })
      .def_prop_ro("settings", [](const File& file) { return file.reader().settings(); })
      .def_prop_ro("identity", [](const File& file) { return file.reader().identity(); })
      .def_prop_ro("file_bytes", [](const File& file) { return file.reader().file_bytes(); })
      .def_prop_ro("output_bytes", [](const File& file) { return file.reader().output_bytes(); })
      .def_prop_ro(
          "profile",
          [](const File& file) { return std::string(profile_name(file.reader().profile())); })
      .def("tensors", &File::tensors)
      .def_prop_ro("base", [](const File& file) { return file.reader().base(); })
      .def("check_readable", &File::check_readable)
      .def("decode", &File::decode, nb::arg("index"), nb::arg("threads") = 0)
      .def("coded", &File::coded, nb::arg("index"))
      .def("tensor_bits", &File::tensor_bits);
}

}  // namespace gbcompress::python
