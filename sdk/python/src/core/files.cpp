// Reading .gbz files.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "artifact/direct_values.h"
#include "artifact/file_digest.h"
#include "artifact/header/header.h"
#include "artifact/integers/decoded_products.h"
#include "artifact/integers/fixed_width.h"
#include "artifact/narrow.h"
#include "artifact/read_many.h"
#include "base/checked.h"
#include "base/fresh_memory.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "decoding.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "module.h"

namespace gbcompress::python {
namespace {

class File {
 public:
  /// @param bases  the models that a delta is the difference from
  /// @param check  "at_once", "decoding": while tensors are decoded, and then by check_digest();
  ///               "never"
  /// @param draft  of a file with layers, the first part alone
  /// @throws Error(kUsage) for a file without layers whose draft is read
  File(const std::string& path, std::optional<std::int64_t> max_output,
       const std::vector<std::string>& bases, const std::string& check, bool draft)
      : path_(path), reader_(open(path, max_output, check, draft)) {
    if (draft && !reader_.is_draft())
      throw Error(Errc::kUsage, printable(path) + " has no draft; leave out draft=True");
    if (!bases.empty()) {
      const nb::gil_scoped_release release;
      const std::vector<std::filesystem::path> paths(bases.begin(), bases.end());
      base_ = base_source(reader_, BaseModel::open_for(reader_, paths, limits(max_output)));
    }
    for (std::size_t i = 0; i < reader_.tensors().size(); ++i)
      index_.emplace(reader_.tensors()[i].name, i);
  }

  const ArtifactReader& reader() const { return reader_; }
  /// 0 of a file without layers.
  std::int64_t draft_bytes() const {
    return reader_.draft()      ? reader_.draft()->file_bytes()
           : reader_.is_draft() ? reader_.file_bytes()
                                : 0;
  }
  void check_digest() const { reader_.check_digest(); }

  std::size_t at(std::size_t index) const {
    if (index >= reader_.tensors().size())
      throw nb::index_error("the index is beyond the last tensor");
    return index;
  }

  /// Finds the base of a delta beside the file where none was given.
  /// @throws Error(kUnsupported) naming the first tensor whose layer type needs its plugin;
  ///         Error(kUsage) for a delta without its base
  void check_readable() {
    if (!base_ && reader_.is_delta()) {
      const nb::gil_scoped_release release;
      find_base();
    }
    for (const ArtifactTensor& tensor : reader_.tensors())
      if (has_spec(tensor.kind)) place_only(tensor);
  }

  nb::list tensors() const {
    nb::list list;
    for (const ArtifactTensor& tensor : reader_.tensors()) {
      nb::dict entry;
      entry["name"] = tensor.name;
      entry["dtype"] = std::string(dtype_name(tensor.dtype));
      entry["shape"] = nb::tuple(nb::cast(tensor.shape));
      entry["kind"] = std::string(kind_name(tensor.kind));
      entry["axis"] = tensor.axis;
      entry["tied_to"] = tensor.kind == TensorKind::kTied
                             ? nb::object(nb::cast(index_.at(tensor.tied_to)))
                             : nb::object(nb::none());
      entry["on_base"] = needs_base(tensor);
      entry["plugin"] =
          is_placed(tensor) ? nb::object(nb::none()) : nb::object(nb::cast(tensor.spec.type_id));
      const bool stepped = (tensor.kind == TensorKind::kQuantized && tensor.mantissa_bits == 0 &&
                            is_real(tensor.dtype) && !tensor.levels.used()) ||
                           tensor.kind == TensorKind::kPredicted;
      entry["step"] =
          stepped ? nb::object(nb::cast(step_size(tensor.step))) : nb::object(nb::none());
      list.append(entry);
    }
    return list;
  }

  /// Tensors in memory of their own. @param wanted  index and element type of each
  nb::list read(const std::vector<std::tuple<std::size_t, std::string>>& wanted,
                int threads) const {
    std::vector<Read> reads;
    for (const auto& [index, dtype] : wanted) reads.push_back({at(index), type_of(dtype)});
    {
      const nb::gil_scoped_release release;
      read(reads, threads);
    }
    nb::list arrays;
    for (Read& each : reads) arrays.append(each.array());
    return arrays;
  }

  /// The same into the caller's memory: index, element type, writable bytes.
  void read_into(const nb::list& wanted, int threads) const {
    std::vector<ReadRequest> requests;
    std::vector<InOut<std::uint8_t>> buffers;  // kept alive
    for (const nb::handle item : wanted) {
      const auto tuple = nb::cast<nb::tuple>(item);
      buffers.push_back(nb::cast<InOut<std::uint8_t>>(tuple[2]));
      requests.push_back({at(nb::cast<std::size_t>(tuple[0])),
                          type_of(nb::cast<std::string>(tuple[1])),
                          std::as_writable_bytes(span_of(buffers.back()))});
    }
    const nb::gil_scoped_release release;
    read_many(reader_, requests, {.base = base_, .threads = threads});
  }

  /// Begins to decode tensors on threads: index and element type of each.
  std::unique_ptr<Decoding> decode(const std::vector<std::tuple<std::size_t, std::string>>& reads,
                                   int threads) const {
    std::vector<std::pair<std::size_t, DType>> types;
    for (const auto& [index, dtype] : reads) types.emplace_back(at(index), type_of(dtype));
    return std::make_unique<Decoding>(reader_, base_, types, threads);
  }

  /// Rows [first, first + count) of a tensor along its first dimension, as read_slice() has them.
  nb::object read_rows(std::size_t index, const std::string& dtype_text, std::int64_t first,
                       std::int64_t count, int threads) const {
    const ArtifactTensor& tensor = reader_.tensors()[at(index)];
    const DType dtype = type_of(dtype_text);
    if (tensor.shape.empty() || first < 0 || count < 0 || first > tensor.shape[0] - count)
      throw nb::index_error("the rows go beyond the tensor");
    FreshMemory rows = [&] {
      const nb::gil_scoped_release release;
      const std::int64_t width =
          tensor_elements(tensor.shape) / std::max<std::int64_t>(1, tensor.shape[0]);
      FreshMemory made(static_cast<std::size_t>(tensor_bytes({count, width}, dtype)));
      read_slice(reader_, index, dtype, first * width, {made.data(), made.size()},
                 {.base = base_, .threads = threads});
      return made;
    }();
    return array_of(std::move(rows));
  }

  /// Rows from `first` on into the caller's memory, as many as fit.
  void read_rows_into(std::size_t index, const std::string& dtype_text, std::int64_t first,
                      const InOut<std::uint8_t>& memory, int threads) const {
    const ArtifactTensor& tensor = reader_.tensors()[at(index)];
    const DType dtype = type_of(dtype_text);
    const auto bytes = std::as_writable_bytes(span_of(memory));
    if (tensor.shape.empty() || first < 0 || first > tensor.shape[0])
      throw nb::index_error("the rows go beyond the tensor");
    const nb::gil_scoped_release release;
    const std::int64_t width =
        tensor_elements(tensor.shape) / std::max<std::int64_t>(1, tensor.shape[0]);
    read_slice(reader_, index, dtype, first * width, bytes, {.base = base_, .threads = threads});
  }

  /// A matrix of integers of a fixed width; None where the tensor is none of integers times steps.
  nb::object fixed_width(std::size_t index, int threads) const {
    if (!FixedWidthMatrix::fits(reader_, at(index))) return nb::none();
    std::unique_ptr<FixedWidthMatrix> made;
    {
      const nb::gil_scoped_release release;
      made = std::make_unique<FixedWidthMatrix>(reader_, index, threads);
      if (reader_.lanes())
        for (const auto& bytes : reader_.lanes()->bytes_of(index)) release_pages(bytes);
    }
    return nb::cast(std::move(*made));
  }

  /// to[t, r] = sum of x[t, c] * value[r, c], in float32.
  /// @return false: nothing was written, because the tensor or element type is none that fits
  bool multiply(std::size_t index, const std::string& dtype, const Input<float>& x,
                const InOut<float>& to, int threads) const {
    const DType kind = type_of(dtype);
    if (!multiplies_decoded(reader_, at(index), kind)) return false;
    const nb::gil_scoped_release release;
    const auto rows = static_cast<std::size_t>(reader_.tensors()[index].shape[0]);
    blame_damage(reader_, [&] {
      multiply_decoded(reader_, index, kind, span_of(x),
                       static_cast<std::int64_t>(to.size() / rows), span_of(to), threads);
    });
    check_mapped_inputs();
    return true;
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
  static nb::object array_of(FreshMemory memory) {
    auto* kept = new FreshMemory(std::move(memory));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<FreshMemory*>(p); });
    return nb::cast(
        Output<std::uint8_t>(reinterpret_cast<std::uint8_t*>(kept->data()), {kept->size()}, owner));
  }

  /// One tensor on its way to Python: fresh memory where it is decoded straight into it.
  struct Read {
    std::size_t index;
    DType dtype;
    std::optional<FreshMemory> fresh = {};
    DecodedTensor decoded = {};

    nb::object array() {
      if (fresh) return array_of(std::move(*fresh));
      if (decoded.dtype() == DType::kF32)
        return nb::cast(to_numpy<float>(std::move(decoded).floats()));
      return nb::cast(to_numpy<std::uint8_t>(std::move(decoded).take_bytes()));
    }
  };

  void read(std::vector<Read>& reads, int threads) const {
    // A copy of a large tensor takes more time and memory than threads save.
    constexpr std::int64_t kLarge = std::int64_t{4} << 20;
    const bool apart = decodes_apart(reader_);
    std::vector<ReadRequest> requests;
    for (Read& each : reads) {
      const ArtifactTensor& tensor = reader_.tensors()[each.index];
      const bool many = reads_directly(reader_, each.index) ||
                        (apart && tensor_bytes(tensor.shape, tensor.dtype) < kLarge);
      if (each.dtype == tensor.dtype && !many) {
        each.decoded = decode_elements(reader_, each.index, {.base = base_, .threads = threads});
        continue;
      }
      each.fresh.emplace(static_cast<std::size_t>(tensor_bytes(tensor.shape, each.dtype)));
      requests.push_back({each.index, each.dtype, {each.fresh->data(), each.fresh->size()}});
    }
    read_many(reader_, requests, {.base = base_, .threads = threads});
  }

  void find_base() {
    try {
      base_ = base_source(reader_, BaseModel::beside(reader_));
    } catch (const Error& error) {
      if (error.code() != Errc::kNotFound) throw;
      throw Error(Errc::kUsage, printable(path_) +
                                    " holds what changed since another model, which no file "
                                    "beside it is; name that one: base=FILE");
    }
  }

  static DType type_of(const std::string& name) {
    if (const auto dtype = parse_dtype(name)) return *dtype;
    throw Error(Errc::kUnsupported, "there is no element type " + printable(name));
  }
  static ArtifactLimits limits(std::optional<std::int64_t> max_output) {
    ArtifactLimits limits;
    if (max_output) limits.output_bytes = *max_output;
    return limits;
  }
  static ArtifactReader open(const std::string& path, std::optional<std::int64_t> max_output,
                             const std::string& check, bool draft) {
    const nb::gil_scoped_release release;
    return ArtifactReader::open(path, limits(max_output),
                                check == "never"      ? DigestCheck::kNever
                                : check == "decoding" ? DigestCheck::kWhileDecoding
                                                      : DigestCheck::kAtOnce,
                                draft ? Layer::kDraft : Layer::kExact);
  }

  std::string path_;
  ArtifactReader reader_;
  BaseSource base_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace

void bind_files(nb::module_& module) {
  module.def(
      "artifact_in", [](const std::string& path) { return artifact_in(path).string(); },
      nb::arg("path"));
  nb::class_<File>(module, "File")
      .def(nb::init<const std::string&, std::optional<std::int64_t>,
                    const std::vector<std::string>&, const std::string&, bool>(),
           nb::arg("path"), nb::arg("max_output").none() = nb::none(),
           nb::arg("bases") = std::vector<std::string>(), nb::arg("check") = "at_once",
           nb::arg("draft") = false)
      .def_prop_ro("arch", [](const File& file) { return file.reader().arch(); })
      .def_prop_ro("settings", [](const File& file) { return file.reader().settings(); })
      .def_prop_ro("identity", [](const File& file) { return file.reader().identity(); })
      .def_prop_ro("file_bytes", [](const File& file) { return file.reader().file_bytes(); })
      .def_prop_ro("draft_bytes", &File::draft_bytes)
      .def_prop_ro("is_draft", [](const File& file) { return file.reader().is_draft(); })
      .def_prop_ro("output_bytes", [](const File& file) { return file.reader().output_bytes(); })
      .def_prop_ro(
          "profile",
          [](const File& file) { return std::string(profile_name(file.reader().profile())); })
      .def("tensors", &File::tensors)
      .def_prop_ro("bases", [](const File& file) { return file.reader().bases(); })
      .def("check_readable", &File::check_readable)
      .def("check_digest", &File::check_digest, nb::call_guard<nb::gil_scoped_release>())
      .def("read",
           nb::overload_cast<const std::vector<std::tuple<std::size_t, std::string>>&, int>(
               &File::read, nb::const_),
           nb::arg("reads"), nb::arg("threads") = 0)
      .def("read_into", &File::read_into, nb::arg("reads"), nb::arg("threads") = 0)
      .def("decode", &File::decode, nb::arg("reads"), nb::arg("threads") = 0,
           nb::keep_alive<0, 1>())
      .def("read_rows", &File::read_rows, nb::arg("index"), nb::arg("dtype"), nb::arg("first"),
           nb::arg("count"), nb::arg("threads") = 0)
      .def("read_rows_into", &File::read_rows_into, nb::arg("index"), nb::arg("dtype"),
           nb::arg("first"), nb::arg("memory"), nb::arg("threads") = 0)
      .def("fixed_width", &File::fixed_width, nb::arg("index"), nb::arg("threads") = 0)
      .def("coded", &File::coded, nb::arg("index"))
      .def("multiply", &File::multiply, nb::arg("index"), nb::arg("dtype"), nb::arg("x"),
           nb::arg("to"), nb::arg("threads") = 0)
      .def("tensor_bits", &File::tensor_bits);
}

}  // namespace gbcompress::python
