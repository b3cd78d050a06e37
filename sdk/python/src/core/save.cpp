// From tensors alone to a file: what `gbcompress compress` does without data.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "artifact/chain.h"
#include "format/safetensors/safetensors.h"
#include "format/tensor_bundle.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/model_folders.h"
#include "gbcompress/options.h"
#include "gbcompress/plan.h"
#include "gbcompress/weights.h"
#include "interruptible.h"
#include "module.h"
#include "save.h"

namespace gbcompress::python {
namespace {

/// The settings that the command line has for the same request.
Settings settings_of(std::optional<double> ratio, std::optional<std::int64_t> max_bytes,
                     std::optional<double> max_error, const TensorRules& rules) {
  Settings settings;
  const auto number = [](double value) { return nlohmann::json(value).dump(); };
  settings.compress.train.loss = Loss::kWeights;
  settings.compress.choose.loss = false;
  if (max_bytes) settings.apply("target.max_bytes", std::to_string(*max_bytes), "max_bytes");
  if (ratio) settings.apply("target.ratio", number(*ratio), "ratio");
  if (max_error) settings.apply("target.max_error", number(*max_error), "max_error");
  if (!max_bytes && !ratio && !max_error) settings.apply("weights.mode", "exact", "lossless");
  for (const std::string& glob : rules.exact) {
    LayerRule rule;
    rule.match = glob;
    rule.mode = WeightMode::kExact;
    settings.compress.bottleneck.layers.push_back(rule);
  }
  for (const TensorTarget& target : rules.layers) {
    LayerRule rule;
    rule.match = target.match;
    rule.bits = target.bits;
    rule.max_error = target.max_error;
    settings.compress.bottleneck.layers.push_back(rule);
  }
  return settings;
}

std::string with_metadata(const std::string& settings, const std::string& metadata) {
  if (metadata.empty()) return settings;
  auto json = nlohmann::ordered_json::parse(settings);
  json["metadata"] = nlohmann::ordered_json::parse(metadata);
  return json.dump();
}

/// @param json  an object of texts, or ""
std::map<std::string, std::string> map_of(const std::string& json) {
  if (json.empty()) return {};
  return nlohmann::json::parse(json).get<std::map<std::string, std::string>>();
}

/// @param numbers  of its members; others keep their defaults
StatisticsUse use_of(const std::map<std::string, double>& numbers) {
  StatisticsUse use;
  for (const auto& [name, value] : numbers) {
    if (name == "feedback")
      use.feedback = value != 0;
    else if (name == "tensor_steps")
      use.tensor_steps = value != 0;
    else if (name == "row_power")
      use.row_power = value;
    else if (name == "joint_row_power")
      use.joint_row_power = value;
    else if (name == "shrinkage")
      use.shrinkage = value;
    else if (name == "two_sided")
      use.two_sided = value != 0;
    else if (name == "bias")
      use.bias = value != 0;
    else
      throw Error(Errc::kUsage, "there is no use of statistics " + name);
  }
  return use;
}

/// @param source  as WeightsSource takes it
nb::dict save(const nb::object& source, const std::string& path, std::optional<double> ratio,
              std::optional<std::int64_t> max_bytes, std::optional<double> max_error,
              const std::vector<std::string>& exact, const std::vector<LayerTuple>& layers,
              const std::optional<std::string>& base, const std::optional<nb::list>& of_weights,
              const std::map<std::string, double>& use, const std::string& metadata, bool overwrite,
              int threads, bool lanes) {
  const WeightsSource from(source, metadata);
  WeightsOptions options =
      options_for(ratio, max_bytes, max_error, rules_of(exact, layers), metadata, threads);
  options.lanes = lanes;
  options.overwrite = overwrite;
  if (ratio)
    options.max_bytes = static_cast<std::int64_t>(static_cast<double>(from.input_bytes) / *ratio);
  std::optional<Statistics> statistics;
  if (of_weights) {
    statistics = read_statistics(bundle_of(*of_weights));
    options.statistics = &*statistics;
    options.statistics_use = use_of(use);
  }
  nb::dict report = to_dict(interruptible([&] {
    if (!base) return compress_weights(from.bundle, path, options);
    const BaseModel model = BaseModel::open(*base);
    options.bases = {&model, 1};
    return compress_weights(from.bundle, path, options);
  }));
  report["input_bytes"] = from.input_bytes;
  return report;
}

/// What a delta of the tensors can refer to: those of the base of the same type and shape, under
/// the digest of all. Nothing where there are none.
std::optional<BaseModel> base_for(const TensorBundle& tensors, TensorBundle before) {
  OwnModel base{BaseModel(std::move(before))};
  std::erase_if(base.tensors, [&](const auto& item) {
    const TensorEntry* now = tensors.find(item.first);
    const TensorEntry& entry = item.second.entry;
    return !now || now->dtype != entry.dtype || now->shape != entry.shape;
  });
  if (base.tensors.empty()) return {};
  return base.model();
}

/// A link of a chain: every tensor bit for bit, whatever it holds.
/// @param before  the tensors of the link before, or nothing
/// @return a report, and whether the link is a delta
nb::dict save_link(const nb::list& tensors, const std::optional<nb::list>& before,
                   const std::string& path, bool overwrite) {
  TensorBundle bundle = bundle_of(tensors);
  for (TensorEntry& entry : bundle.tensors) entry.exact = true;
  std::optional<TensorBundle> base;
  if (before) base = bundle_of(*before);
  bool delta = false;
  nb::dict report = to_dict(interruptible([&] {
    WeightsOptions options;
    options.keep_digest = true;
    options.overwrite = overwrite;
    std::optional<BaseModel> model;
    if (base) model = base_for(bundle, std::move(*base));
    if (model) options.bases = {&*model, 1};
    delta = model.has_value();
    return compress_weights(bundle, path, options);
  }));
  report["delta"] = delta;
  return report;
}

/// Name, element type and shape of every tensor of a model file or folder.
nb::list list_tensors(const std::string& path) {
  const TensorBundle bundle = open_tensors(path);
  nb::list tensors;
  for (const TensorEntry& entry : bundle.tensors)
    tensors.append(nb::make_tuple(entry.name, std::string(dtype_name(entry.dtype)),
                                  nb::tuple(nb::cast(entry.shape))));
  return tensors;
}

/// Copies the files of configuration and tokenizer from one folder to another, which exists.
/// @param artifact  name of the `.gbz` that holds the weights; "" without one
/// @param write  called while the copies lie beside their places, which they take only if it
///               returns; or None
/// @return what `write` returned
nb::object carry(const std::string& from, const std::string& to, bool overwrite,
                 const nb::object& write, const std::string& artifact) {
  TensorBundle bundle;
  find_carried(from, bundle);
  CarriedCopies copies(from, bundle.carried, to, overwrite, artifact);
  nb::object result = write.is_none() ? nb::none() : nb::object(write());
  copies.commit();
  return result;
}

/// Name, element type, shape and bytes of each tensor, as save() takes them.
nb::list list_of(const TensorBundle& bundle) {
  nb::list tensors;
  for (const TensorEntry& entry : bundle.tensors) {
    auto bytes = std::make_unique<std::vector<std::byte>>(entry.bytes.begin(), entry.bytes.end());
    const std::vector<std::byte>& all = *bytes;
    const nb::capsule owner(
        bytes.release(), [](void* p) noexcept { delete static_cast<std::vector<std::byte>*>(p); });
    tensors.append(nb::make_tuple(
        entry.name, std::string(dtype_name(entry.dtype)), nb::tuple(nb::cast(entry.shape)),
        nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(all.data(), {all.size()}, owner)));
  }
  return tensors;
}

/// All tensors of a model file.
nb::list read_tensors(const std::string& path) { return list_of(open_tensors(path)); }

/// Of a `.gbz`, a delta with the links in its folder. The arrays can be written.
nb::list read_model(const std::string& path) {
  OwnModel model = interruptible([&] {
    const std::filesystem::path file(path);
    return expanded(ArtifactReader::open(file),
                    file.has_parent_path() ? file.parent_path() : std::filesystem::path("."), {});
  });
  nb::list tensors;
  for (auto& [name, tensor] : model.tensors) {
    // Tied tensors share their bytes, and what is a file's cannot be written.
    using Bytes = std::vector<std::byte>;
    auto bytes =
        tensor.own && tensor.own.use_count() == 1
            ? std::make_unique<Bytes>(std::move(*tensor.own))
            : std::make_unique<Bytes>(tensor.entry.bytes.begin(), tensor.entry.bytes.end());
    Bytes& all = *bytes;
    const nb::capsule owner(bytes.release(),
                            [](void* p) noexcept { delete static_cast<Bytes*>(p); });
    tensors.append(nb::make_tuple(
        name, std::string(dtype_name(tensor.entry.dtype)), nb::tuple(nb::cast(tensor.entry.shape)),
        nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(all.data(), {all.size()}, owner)));
  }
  return tensors;
}

/// What targets are relative to: bytes of a safetensors file, and elements, tied tensors once.
/// @param tensors  name, element type, shape, and a number that those of the same memory share
std::pair<std::int64_t, std::int64_t> original_size(
    const std::vector<
        std::tuple<std::string, std::string, std::vector<std::int64_t>, std::uint64_t>>& tensors) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, dtype_text, shape, memory] : tensors) {
    const auto dtype = parse_dtype(dtype_text);
    if (!dtype) throw Error(Errc::kUnsupported, "there is no element type " + dtype_text);
    // Stands for the memory and is never read.
    const auto* place = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(memory));
    entries.push_back({.name = name, .dtype = *dtype, .shape = shape, .bytes = {place, 1}});
  }
  const std::vector<TensorEntry> distinct = distinct_tensors(entries);
  std::int64_t elements = 0;
  for (const TensorEntry& entry : distinct) elements += tensor_elements(entry.shape);
  return {safetensors_bytes(distinct, {}), elements};
}

}  // namespace

TensorBundle bundle_of(const nb::list& tensors) {
  TensorBundle bundle;
  for (const nb::handle item : tensors) {
    const auto tuple = nb::cast<nb::tuple>(item);
    const auto dtype_text = nb::cast<std::string>(tuple[1]);
    const auto bytes = nb::cast<Bytes>(tuple[3]);
    TensorEntry entry;
    entry.name = nb::cast<std::string>(tuple[0]);
    check_tensor_name(entry.name, "tensors");
    const auto dtype = parse_dtype(dtype_text);
    if (!dtype) throw Error(Errc::kUnsupported, "there is no element type " + dtype_text);
    entry.dtype = *dtype;
    entry.shape = nb::cast<std::vector<std::int64_t>>(tuple[2]);
    entry.bytes = std::as_bytes(span_of(bytes));
    const std::string what = "tensor " + printable(entry.name);
    if (entry.shape.size() > kMaxTensorRank || tensor_bytes(entry.dtype, entry.shape, what) !=
                                                   static_cast<std::int64_t>(entry.bytes.size()))
      throw Error(Errc::kShapeMismatch, what + " does not have the bytes of its shape and type");
    bundle.tensors.push_back(std::move(entry));
  }
  sort_by_name(bundle, "tensors");
  return bundle;
}

nb::dict to_dict(const WeightsReport& report) {
  nb::list tensors;
  for (const StoredTensor& stored : report.tensors) {
    nb::dict entry;
    entry["name"] = stored.name;
    entry["dtype"] = std::string(dtype_name(stored.dtype));
    entry["shape"] = nb::tuple(nb::cast(stored.shape));
    entry["stored"] = stored.stored;
    entry["step"] = stored.step > 0 ? nb::object(nb::cast(stored.step)) : nb::object(nb::none());
    entry["bytes"] = stored.bytes;
    entry["bits"] = stored.bits();
    entry["error"] = stored.error;
    entry["change_error"] =
        stored.in_base ? nb::object(nb::cast(stored.change_error)) : nb::object(nb::none());
    tensors.append(entry);
  }
  nb::dict result;
  result["file_bytes"] = report.output_bytes;
  result["parameters"] = report.parameters;
  result["error"] = report.total_error;
  result["change_error"] =
      report.change_error ? nb::object(nb::cast(*report.change_error)) : nb::object(nb::none());
  result["target_met"] = report.target_met;
  result["target_note"] = report.target_note;
  result["notes"] = nb::tuple(nb::cast(report.notes));
  result["identity"] = report.identity;
  result["tensors"] = tensors;
  return result;
}

WeightsSource::WeightsSource(const nb::object& source, const std::string& metadata)
    : kept(source),
      bundle(nb::isinstance<nb::str>(source) ? open_tensors(nb::cast<std::string>(source))
                                             : bundle_of(nb::cast<nb::list>(source))),
      input_bytes(nb::isinstance<nb::str>(source)
                      ? bundle.file_bytes
                      : safetensors_bytes(distinct_tensors(bundle.tensors), map_of(metadata))) {}

TensorRules rules_of(const std::vector<std::string>& exact, const std::vector<LayerTuple>& layers) {
  TensorRules rules{exact, {}};
  for (const auto& [match, bits, max_error] : layers)
    rules.layers.push_back({match, bits, max_error});
  return rules;
}

WeightsOptions options_for(std::optional<double> ratio, std::optional<std::int64_t> max_bytes,
                           std::optional<double> max_error, const TensorRules& rules,
                           const std::string& metadata, int threads) {
  const Settings settings = settings_of(ratio, max_bytes, max_error, rules);
  return {.max_bytes = max_bytes,
          .max_error = max_error,
          .measure = settings.compress.train.rate.measure,
          .quantizer = settings.compress.train.rate.quantizer,
          .exact = rules.exact,
          .targets = tensor_targets(settings.compress.bottleneck),
          .settings = with_metadata(settings.changes_json(), metadata),
          .keep_settings = !metadata.empty(),
          .threads = threads};
}

void bind_save(nb::module_& module) {
  module.def("original_size", &original_size, nb::arg("tensors"));
  module.def(
      "check_writable",
      [](const std::string& path, bool overwrite) { check_writable(path, overwrite); },
      nb::arg("path"), nb::arg("overwrite"));
  module.def(
      "weights_name", [](const std::string& folder) { return weights_name(folder); },
      nb::arg("folder"));
  module.def(
      "component_folders",
      [](const std::string& folder) {
        std::vector<std::string> names;
        for (const auto& each : component_folders(folder)) names.push_back(each.generic_string());
        return names;
      },
      nb::arg("folder"));
  module.def("list_tensors", &list_tensors, nb::arg("path"));
  module.def("carry", &carry, nb::arg("source"), nb::arg("folder"), nb::arg("overwrite"),
             nb::arg("write").none() = nb::none(), nb::arg("artifact") = "");
  module.def("read_tensors", &read_tensors, nb::arg("path"));
  module.def("read_model", &read_model, nb::arg("path"));
  module.def("save_link", &save_link, nb::arg("tensors"), nb::arg("before").none(), nb::arg("path"),
             nb::arg("overwrite"));
  module.def("save", &save, nb::arg("tensors"), nb::arg("path"), nb::kw_only(),
             nb::arg("ratio").none(), nb::arg("max_bytes").none(), nb::arg("max_error").none(),
             nb::arg("exact"), nb::arg("layers") = std::vector<LayerTuple>(),
             nb::arg("base").none(), nb::arg("statistics").none(), nb::arg("use"),
             nb::arg("metadata"), nb::arg("overwrite"), nb::arg("threads"),
             nb::arg("lanes") = false);
}

}  // namespace gbcompress::python
