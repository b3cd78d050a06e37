// G-nets for training in Python: plans, and the g-nets of one tensor over memory of torch's.
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
#include "gnet/same_plan.h"
#include "gnets.h"
#include "module.h"
#include "optim/gnet_layer.h"
#include "plugins/attention/plan.h"
#include "plugins/conv/plan.h"
#include "plugins/embedding/plan.h"
#include "plugins/linear/plan.h"
#include "plugins/recurrent/plan.h"
#include "team.h"

namespace gbcompress::python {
namespace {

/// A layer type that ships with the program.
struct Shipped {
  const char* id;
  std::vector<std::string> modules;
  std::optional<GNetPlan> (*plan)(const ParameterInfo&, const GNetOptions&);
  bool only_by_rule = false;
};
const std::vector<Shipped>& shipped_types() {
  static const std::vector<Shipped> types = {
      {"attention", attention::modules(), &attention::plan},
      {"conv", conv::modules(), &conv::plan},
      {"embedding", embedding::modules(), &embedding::plan, true},
      {"linear", linear::modules(), &linear::plan},
      {"recurrent", recurrent::modules(), &recurrent::plan},
  };
  return types;
}

/// The id of the layer type that plans parameters of such modules; "" where there is none, or one
/// that a rule has to name.
std::string type_of_module(const std::string& module) {
  for (const Shipped& type : shipped_types())
    if (!type.only_by_rule &&
        std::find(type.modules.begin(), type.modules.end(), module) != type.modules.end())
      return type.id;
  return "";
}

/// The plan of a parameter by a shipped type; nothing where it does not take it.
std::optional<GNetPlan> plan_by_type(const std::string& id, const ParameterInfo& parameter,
                                     const GNetOptions& options) {
  for (const Shipped& type : shipped_types()) {
    if (id != type.id) continue;
    std::optional<GNetPlan> plan = type.plan(parameter, options);
    if (plan) plan->type_id = id;
    return plan;
  }
  throw Error(Errc::kUsage, "there is no layer type " + printable(id) +
                                "; use attention, conv, embedding, linear, recurrent or plain");
}

GNetPlan plan_of_view(const ParameterInfo& parameter, const GNetOptions& options, int row_dim,
                      int col_dim, std::int64_t row_splits, std::int64_t col_splits,
                      const std::optional<std::vector<std::int64_t>>& shape) {
  ParameterInfo part = parameter;
  if (shape) part.shape = *shape;
  return make_plan(
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
std::vector<int> owners_of(const std::vector<GNetPlan>& plans, int world) {
  std::vector<BankLoad> loads;
  for (const GNetPlan& plan : plans) {
    BankLoad load = load_of(bank_shape(plan), 1);
    load.cost *= static_cast<double>(plan.grid().tiles());
    loads.push_back(load);
  }
  std::vector<int> owners;
  for (const auto& first : share_out(loads, world)) {
    const auto owner = std::upper_bound(first.begin(), first.end(), 0) - first.begin() - 1;
    owners.push_back(static_cast<int>(owner));
  }
  return owners;
}

GNetPlan with_scale(const GNetPlan& plan, float output_scale) {
  GNetPlan scaled = plan;
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

/// A tensor of a model for gnets_for_size(): what a file holds of it, and its plan under options.
struct PlannedTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string tied_to;
  bool code_plain;
  Bytes values;
  std::function<std::optional<GNetPlan>(const GNetOptions&)> plan;
};

/// @return the options with the ratio; planned bytes; whether the file fits
std::tuple<GNetOptions, std::int64_t, bool> sized_for_ratio(
    const std::vector<PlannedTensor>& tensors, const GNetOptions& gnet, const std::string& coding,
    double ratio) {
  std::vector<SizedTensor> sized;
  for (const PlannedTensor& from : tensors) {
    const auto dtype = parse_dtype(from.dtype);
    if (!dtype) throw Error(Errc::kUnsupported, "there is no element type " + from.dtype);
    sized.push_back({.info = {.name = from.name, .shape = from.shape, .dtype = *dtype},
                     .tied_to = from.tied_to,
                     .code_plain = from.code_plain,
                     .values = std::as_bytes(span_of(from.values)),
                     .plan = from.plan});
  }
  const SizedGNets result =
      gnets_for_size(sized, gnet, {.coding = coding_of(coding)}, bytes_for_ratio(sized, ratio));
  return {result.gnet, result.planned_bytes, result.fits};
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
      entry["plan"] = stored.plan;
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
  nb::class_<PlannedTensor>(module, "PlannedTensor")
      .def(
          "__init__",
          [](PlannedTensor* self, std::string name, std::string dtype,
             std::vector<std::int64_t> shape, std::string tied_to, bool code_plain, Bytes values,
             std::function<std::optional<GNetPlan>(const GNetOptions&)> plan) {
            new (self) PlannedTensor{std::move(name),    std::move(dtype), std::move(shape),
                                     std::move(tied_to), code_plain,       std::move(values),
                                     std::move(plan)};
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("shape"), nb::arg("tied_to"),
          nb::arg("code_plain"), nb::arg("values"), nb::arg("plan").none());
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

void bind_plans(nb::module_& module) {
  nb::class_<GNetPlan>(module, "GNetPlan")
      .def_rw("type_id", &GNetPlan::type_id)
      .def_ro("shape", &GNetPlan::shape)
      .def_ro("tile_rows", &GNetPlan::tile_rows)
      .def_ro("tile_cols", &GNetPlan::tile_cols)
      .def_ro("hidden", &GNetPlan::hidden)
      .def_ro("rank", &GNetPlan::rank)
      .def_ro("output_scale", &GNetPlan::output_scale)
      .def_prop_ro("kernel", [](const GNetPlan& plan) { return plan.grid().kernel(); })
      .def_prop_ro("tiles", [](const GNetPlan& plan) { return plan.grid().tiles(); })
      .def_prop_ro("elements", [](const GNetPlan& plan) { return plan.grid().elements(); })
      .def_prop_ro("parameters", &plan_parameters)
      .def_prop_ro("generator",
                   [](const GNetPlan& plan) { return std::string(generator_name(plan.generator)); })
      .def_prop_ro("text", &generator_text)
      .def("with_scale", &with_scale, nb::arg("output_scale"))
      .def("same_but_scale",
           [](const GNetPlan& a, const GNetPlan& b) { return same_but_scale(a, b); });
  module.def("type_of_module", &type_of_module, nb::arg("module"));
  module.def("plan_by_type", &plan_by_type, nb::arg("type"), nb::arg("parameter"),
             nb::arg("options"));
  module.def("plan_of_view", &plan_of_view, nb::arg("parameter"), nb::arg("options"),
             nb::arg("row_dim"), nb::arg("col_dim"), nb::arg("row_splits"), nb::arg("col_splits"),
             nb::arg("shape").none());
  module.def("deviation", &deviation, nb::arg("values"));
  module.def("owners_of", &owners_of, nb::arg("plans"), nb::arg("world"));
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
  bind_plans(module);
  bind_recipe(module);
  nb::class_<GnetLayer> bound(module, "GnetLayer");
  bound
      .def(
          "__init__",
          [](GnetLayer* self, const GNetPlan& plan, const std::string& name, std::uint64_t seed,
             double lr, double beta1, double beta2, double eps, double weight_decay) {
            new (self) GnetLayer(plan, name, seed,
                                 {.lr = lr,
                                  .beta1 = beta1,
                                  .beta2 = beta2,
                                  .eps = eps,
                                  .weight_decay = weight_decay});
          },
          nb::arg("plan"), nb::arg("name"), nb::arg("seed"), nb::arg("lr"), nb::arg("beta1"),
          nb::arg("beta2"), nb::arg("eps"), nb::arg("weight_decay"))
      .def_prop_ro("plan", &GnetLayer::plan)
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
