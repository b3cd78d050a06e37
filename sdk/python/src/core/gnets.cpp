// G-nets for training in Python: specifications, and the g-nets of one tensor over memory of
// torch's.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/deviation.h"
#include "base/parallel.h"
#include "bottleneck/placement.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/options.h"
#include "gbcompress/recipe.h"
#include "gnet/same_spec.h"
#include "gnets.h"
#include "module.h"
#include "optim/gnet_layer.h"
#include "plugins/attention/spec.h"
#include "plugins/conv/spec.h"
#include "plugins/embedding/spec.h"
#include "plugins/linear/spec.h"
#include "plugins/recurrent/spec.h"
#include "team.h"

namespace gbcompress::python {
namespace {

/// A layer type that ships with the program.
struct Shipped {
  const char* id;
  std::vector<std::string> modules;
  std::optional<GNetSpec> (*spec)(const ParameterInfo&, const GNetOptions&);
  bool only_by_rule = false;
};
const std::vector<Shipped>& shipped_types() {
  static const std::vector<Shipped> types = {
      {"attention", attention::modules(), &attention::spec},
      {"conv", conv::modules(), &conv::spec},
      {"embedding", embedding::modules(), &embedding::spec, true},
      {"linear", linear::modules(), &linear::spec},
      {"recurrent", recurrent::modules(), &recurrent::spec},
  };
  return types;
}

/// The id of the layer type that takes parameters of such modules; "" where there is none, or one
/// that a rule has to name.
std::string type_of_module(const std::string& module) {
  for (const Shipped& type : shipped_types())
    if (!type.only_by_rule &&
        std::find(type.modules.begin(), type.modules.end(), module) != type.modules.end())
      return type.id;
  return "";
}

/// The specification of a parameter by a shipped type; nothing where it does not take it.
std::optional<GNetSpec> spec_by_type(const std::string& id, const ParameterInfo& parameter,
                                     const GNetOptions& options) {
  for (const Shipped& type : shipped_types()) {
    if (id != type.id) continue;
    std::optional<GNetSpec> spec = type.spec(parameter, options);
    if (spec) spec->type_id = id;
    return spec;
  }
  throw Error(Errc::kUsage, "there is no layer type " + printable(id) +
                                "; use attention, conv, embedding, linear, recurrent or plain");
}

GNetSpec spec_of_view(const ParameterInfo& parameter, const GNetOptions& options, int row_dim,
                      int col_dim, std::int64_t row_splits, std::int64_t col_splits,
                      const std::optional<std::vector<std::int64_t>>& shape) {
  ParameterInfo part = parameter;
  if (shape) part.shape = *shape;
  return make_spec(
      part,
      {.row_dim = row_dim, .col_dim = col_dim, .row_splits = row_splits, .col_splits = col_splits},
      options);
}

AxisCode code_of(const std::string& text) {
  const auto code = parse_code(text);
  if (!code)
    throw Error(Errc::kUsage,
                "there is no position code " + printable(text) +
                    "; use binary, gray, one_hot, fourier:4, pixel:28x28:4 or latent:2");
  return *code;
}

Generator generator_of(const std::string& name) {
  for (const Generator kind :
       {Generator::kGNet, Generator::kStochastic, Generator::kLowRank, Generator::kXox})
    if (generator_name(kind) == name) return kind;
  throw Error(Errc::kUsage, "there is no generator " + printable(name) +
                                "; use gnet, stochastic, low_rank or xox");
}

GNetOptions options_of(std::int64_t tile_weights, std::optional<double> ratio,
                       std::vector<std::int64_t> hidden, const std::string& generator,
                       std::int64_t rank, const std::optional<std::string>& row_code,
                       const std::optional<std::string>& col_code) {
  GNetOptions options{.tile_weights = tile_weights,
                      .ratio = ratio,
                      .hidden = std::move(hidden),
                      .generator = generator_of(generator),
                      .rank = rank};
  if (row_code) options.row_code = code_of(*row_code);
  if (col_code) options.col_code = code_of(*col_code);
  return options;
}

double deviation(const Input<double>& values) {
  const nb::gil_scoped_release release;
  return deviation_of(static_cast<std::int64_t>(values.size()),
                      [&](const auto& visit) { visit(span_of(values)); });
}

/// The rank that owns each tensor: costliest first, each to the rank with the least to do.
std::vector<int> owners_of(const std::vector<GNetSpec>& specs, int world) {
  std::vector<BankLoad> loads;
  for (const GNetSpec& spec : specs) {
    BankLoad load = load_of(bank_shape(spec), 1);
    load.cost *= static_cast<double>(spec.grid().tiles());
    loads.push_back(load);
  }
  std::vector<int> owners;
  for (const auto& first : share_out(loads, world)) {
    const auto owner = std::upper_bound(first.begin(), first.end(), 0) - first.begin() - 1;
    owners.push_back(static_cast<int>(owner));
  }
  return owners;
}

GNetSpec with_scale(const GNetSpec& spec, float output_scale) {
  GNetSpec scaled = spec;
  scaled.output_scale = output_scale;
  return scaled;
}

/// Factor of the learning rate at a step; constant, cosine and one_cycle.
double factor_of(const std::string& schedule, std::int64_t step, std::int64_t total) {
  for (const Schedule kind : {Schedule::kConstant, Schedule::kCosine, Schedule::kOneCycle})
    if (schedule_name(kind) == schedule) return schedule_factor(kind, step, total);
  throw Error(Errc::kUsage, "there is no schedule " + printable(schedule) +
                                "; use constant, cosine or one_cycle");
}

/// A tensor of a model for gnets_for_size(): what a file holds of it, and its specification under
/// options.
struct RecipeTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string tied_to;
  bool code_plain;
  Bytes values;
  std::function<std::optional<GNetSpec>(const GNetOptions&)> spec;
};

/// @return the options with the ratio; expected bytes; whether the file fits
std::tuple<GNetOptions, std::int64_t, bool> sized_for_ratio(
    const std::vector<RecipeTensor>& tensors, const GNetOptions& gnet, const std::string& coding,
    double ratio) {
  std::vector<SizedTensor> sized;
  for (const RecipeTensor& from : tensors) {
    const auto dtype = parse_dtype(from.dtype);
    if (!dtype) throw Error(Errc::kUnsupported, "there is no element type " + from.dtype);
    sized.push_back({.info = {.name = from.name, .shape = from.shape, .dtype = *dtype},
                     .tied_to = from.tied_to,
                     .code_plain = from.code_plain,
                     .values = std::as_bytes(span_of(from.values)),
                     .spec = from.spec});
  }
  const SizedGNets result =
      gnets_for_size(sized, gnet, {.coding = coding_of(coding)}, bytes_for_ratio(sized, ratio));
  return {result.gnet, result.expected_bytes, result.fits};
}

/// Ranges of equal length, one a thread.
RangeRunner runner(int threads) {
  return [threads](std::int64_t n, std::int64_t grain,
                   const std::function<void(std::int64_t, std::int64_t)>& body) {
    const std::int64_t most = threads > 0 ? threads : usable_processors();
    const std::int64_t parts =
        std::clamp<std::int64_t>(n / std::max<std::int64_t>(grain, 1), 1, most);
    if (n > 0)
      team_tasks(static_cast<int>(parts),
                 [&](std::int64_t i) { body(n * i / parts, n * (i + 1) / parts); });
  };
}

/// What a file holds of each tensor: g-nets, or values.
nb::list read_gnet_file(const std::string& path) {
  const ArtifactReader reader = ArtifactReader::open(path);
  reader.verify();
  nb::list result;
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& stored = reader.tensors()[i];
    nb::dict entry;
    entry["name"] = stored.name;
    entry["kind"] = std::string(kind_name(stored.kind));
    entry["dtype"] = std::string(dtype_name(stored.dtype));
    entry["shape"] = stored.shape;
    entry["tied_to"] = stored.tied_to;
    if (stored.kind == TensorKind::kGenerated) {
      entry["spec"] = stored.spec;
      entry["theta"] = to_numpy<float>(reader.theta(i));
      entry["theta_steps"] = stored.theta_steps;
    } else if (stored.kind != TensorKind::kTied) {
      entry["values"] = to_numpy<std::uint8_t>(decode_tensor(reader, i));
    }
    result.append(entry);
  }
  return result;
}

void bind_recipe(nb::module_& module) {
  nb::class_<RecipeTensor>(module, "RecipeTensor")
      .def(
          "__init__",
          [](RecipeTensor* self, std::string name, std::string dtype,
             std::vector<std::int64_t> shape, std::string tied_to, bool code_plain, Bytes values,
             std::function<std::optional<GNetSpec>(const GNetOptions&)> spec) {
            new (self) RecipeTensor{std::move(name),    std::move(dtype), std::move(shape),
                                    std::move(tied_to), code_plain,       std::move(values),
                                    std::move(spec)};
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("shape"), nb::arg("tied_to"),
          nb::arg("code_plain"), nb::arg("values"), nb::arg("spec").none());
  nb::class_<GNetRecipe>(module, "GNetRecipe")
      .def_ro("gnet", &GNetRecipe::gnet)
      .def_ro("lr", &GNetRecipe::lr)
      .def_ro("weight_decay", &GNetRecipe::weight_decay)
      .def_prop_ro(
          "schedule",
          [](const GNetRecipe& recipe) { return std::string(schedule_name(recipe.schedule)); })
      .def_ro("code_plain", &GNetRecipe::code_plain);
  module.def("gnet_recipe", &gnet_recipe, nb::arg("given"), nb::arg("chooses"),
             nb::arg("target_ratio"));
  module.attr("PLAIN_MANTISSA_BITS") = kPlainMantissaBits;
  module.def("gnets_for_ratio", &sized_for_ratio, nb::arg("tensors"), nb::arg("gnet"),
             nb::arg("coding"), nb::arg("ratio"));
}

void bind_options(nb::module_& module) {
  nb::class_<ParameterInfo>(module, "ParameterInfo")
      .def(
          "__init__",
          [](ParameterInfo* self, std::string name, std::string local_name, std::string module_path,
             std::string module_type, std::vector<std::int64_t> shape, double std) {
            new (self) ParameterInfo{.name = std::move(name),
                                     .local_name = std::move(local_name),
                                     .module_path = std::move(module_path),
                                     .module_type = std::move(module_type),
                                     .shape = std::move(shape),
                                     .std = std};
          },
          nb::arg("name"), nb::arg("local_name"), nb::arg("module_path"), nb::arg("module_type"),
          nb::arg("shape"), nb::arg("std"))
      .def_ro("name", &ParameterInfo::name)
      .def_ro("local_name", &ParameterInfo::local_name)
      .def_ro("module_path", &ParameterInfo::module_path)
      .def_ro("module_type", &ParameterInfo::module_type)
      .def_ro("shape", &ParameterInfo::shape)
      .def_ro("std", &ParameterInfo::std);
  nb::class_<GNetOptions>(module, "GNetOptions")
      .def_static("make", &options_of, nb::arg("tile_weights"), nb::arg("ratio").none(),
                  nb::arg("hidden"), nb::arg("generator"), nb::arg("rank"),
                  nb::arg("row_code").none(), nb::arg("col_code").none())
      .def_ro("tile_weights", &GNetOptions::tile_weights)
      .def_ro("ratio", &GNetOptions::ratio)
      .def_ro("hidden", &GNetOptions::hidden)
      .def_prop_ro(
          "generator",
          [](const GNetOptions& options) { return std::string(generator_name(options.generator)); })
      .def_ro("rank", &GNetOptions::rank);
}

void bind_specs(nb::module_& module) {
  nb::class_<GNetSpec>(module, "GNetSpec")
      .def_rw("type_id", &GNetSpec::type_id)
      .def_ro("shape", &GNetSpec::shape)
      .def_ro("tile_rows", &GNetSpec::tile_rows)
      .def_ro("tile_cols", &GNetSpec::tile_cols)
      .def_ro("hidden", &GNetSpec::hidden)
      .def_ro("rank", &GNetSpec::rank)
      .def_ro("output_scale", &GNetSpec::output_scale)
      .def_prop_ro("kernel", [](const GNetSpec& spec) { return spec.grid().kernel(); })
      .def_prop_ro("tiles", [](const GNetSpec& spec) { return spec.grid().tiles(); })
      .def_prop_ro("elements", [](const GNetSpec& spec) { return spec.grid().elements(); })
      .def_prop_ro("parameters", &spec_parameters)
      .def_prop_ro("generator",
                   [](const GNetSpec& spec) { return std::string(generator_name(spec.generator)); })
      .def_prop_ro("text", &generator_text)
      .def("with_scale", &with_scale, nb::arg("output_scale"))
      .def("same_but_scale",
           [](const GNetSpec& a, const GNetSpec& b) { return same_but_scale(a, b); });
  module.def("type_of_module", &type_of_module, nb::arg("module"));
  module.def("spec_by_type", &spec_by_type, nb::arg("type"), nb::arg("parameter"),
             nb::arg("options"));
  module.def("spec_of_view", &spec_of_view, nb::arg("parameter"), nb::arg("options"),
             nb::arg("row_dim"), nb::arg("col_dim"), nb::arg("row_splits"), nb::arg("col_splits"),
             nb::arg("shape").none());
  module.def("deviation", &deviation, nb::arg("values"));
  module.def("owners_of", &owners_of, nb::arg("specs"), nb::arg("world"));
  module.def("schedule_factor", &factor_of, nb::arg("schedule"), nb::arg("step"), nb::arg("total"));
  module.def("read_gnet_file", &read_gnet_file, nb::arg("path"));
}

/// What a file and a training state hold of the g-nets of a tensor.
void bind_state(nb::class_<GnetLayer>& bound) {
  bound
      .def(
          "restore",
          [](GnetLayer& layer, const Input<float>& theta, float output_scale) {
            layer.restore(span_of(theta), output_scale);
          },
          nb::arg("theta"), nb::arg("output_scale"))
      .def("moments",
           [](const GnetLayer& layer) {
             return std::make_tuple(copied(layer.first_moment()), copied(layer.second_moment()));
           })
      .def(
          "restore_moments",
          [](GnetLayer& layer, const Input<float>& first, const Input<float>& second,
             std::int64_t steps) { layer.restore_moments(span_of(first), span_of(second), steps); },
          nb::arg("first"), nb::arg("second"), nb::arg("steps"));
}

}  // namespace

std::unique_ptr<TileKernel> kernel_of(const std::string& name, int threads) {
  if (name == "fused") return make_fused_kernel_with(runner(threads));
  if (name == "reference") return make_exact_kernel_with(runner(threads));
  throw Error(Errc::kUsage, "there is no kernel " + printable(name) + "; use fused or reference");
}

Coding coding_of(const std::string& name) {
  for (const Coding coding : {Coding::kF32, Coding::kF16, Coding::kI8, Coding::kCoded})
    if (coding_name(coding) == name) return coding;
  throw Error(Errc::kUsage,
              "there is no coding " + printable(name) + "; use fp32, fp16, int8 or coded");
}

void bind_gnets(nb::module_& module) {
  bind_options(module);
  bind_specs(module);
  bind_recipe(module);
  nb::class_<GnetLayer> bound(module, "GnetLayer");
  bound
      .def(
          "__init__",
          [](GnetLayer* self, const GNetSpec& spec, const std::string& name, std::uint64_t seed,
             double lr, double beta1, double beta2, double eps, double weight_decay) {
            new (self) GnetLayer(spec, name, seed,
                                 {.lr = lr,
                                  .momentum = beta1,
                                  .beta2 = beta2,
                                  .eps = eps,
                                  .weight_decay = weight_decay});
          },
          nb::arg("spec"), nb::arg("name"), nb::arg("seed"), nb::arg("lr"), nb::arg("beta1"),
          nb::arg("beta2"), nb::arg("eps"), nb::arg("weight_decay"))
      .def_prop_ro("spec", &GnetLayer::spec)
      .def_prop_ro("steps", &GnetLayer::steps)
      .def(
          "step",
          [](GnetLayer& layer, double lr_factor, int threads) {
            const nb::gil_scoped_release release;
            layer.step(lr_factor, runner(threads));
          },
          nb::arg("lr_factor"), nb::arg("threads"));
  bind_calls(bound);
  bind_state(bound);
}

}  // namespace gbcompress::python
