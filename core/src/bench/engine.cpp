#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "bench/machine_probe.h"
#include "bench/memory.h"
#include "bench/shapes.h"
#include "gbcompress/bench.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

std::string widths_text(const GNetSpec& spec) {
  std::string text = std::to_string(gnet_inputs(spec));
  for (const std::int64_t width : spec.hidden) text.append("-").append(std::to_string(width));
  return text.append("-1");
}

/// One shape: its bottleneck, random gradients, and the samples taken so far.
class Run {
 public:
  Run(EngineShape shape, const Registry& types, const std::string& kernel)
      : bottleneck_(shape.tensors, types, options(shape, kernel)) {
    row_.shape = shape.name;
    std::map<std::string, std::int64_t> gnets;
    double forward = 0, backward = 0;
    for (const auto& layer : bottleneck_.layers()) {
      const std::int64_t weights = layer.weights.numel(), tiles = layer.spec.grid().tiles();
      row_.weights += weights;
      row_.tiles += tiles;
      std::int64_t& count = gnets[widths_text(layer.spec)];
      count += tiles;
      if (count > gnets[row_.gnet]) row_.gnet = widths_text(layer.spec);
      const WeightOperations operations = weight_operations(layer.spec.hidden);
      forward += operations.forward * static_cast<double>(weights);
      backward += operations.backward * static_cast<double>(weights);
      gradients_.push_back(at::empty_like(layer.weights).uniform_(-1e-4, 1e-4));
    }
    check_all_generated(shape, types);
    row_.gnet_parameters = gnet_parameters(bottleneck_);
    row_.model_bytes = 2 * 4 * row_.weights;
    row_.bank_bytes = 4 * 4 * row_.gnet_parameters;
    operations_ = {forward / static_cast<double>(row_.weights),
                   backward / static_cast<double>(row_.weights)};
    const auto work = static_cast<double>(row_.weights);
    forward_ = backward_ = step_ = RateSampler(work);
  }

  void measure_memory() {
    step();  // all memory that stays is touched once
    if (!reset_peak()) return;
    const std::int64_t before = resident_bytes();
    step();
    const std::int64_t peak = peak_bytes();
    if (before >= 0 && peak >= 0) row_.step_extra_bytes = std::max<std::int64_t>(0, peak - before);
  }

  void sample() {
    forward_.sample([&] { bottleneck_.predict_weights(); });
    bottleneck_.zero_grad();
    give_gradients();
    backward_.sample([&] { bottleneck_.backward(); });
    step_.sample([&] { step(); });
  }

  EngineRow row(const MachineRates& machine) const {
    EngineRow row = row_;
    const auto rate = [&](const RateSampler& sampler, double operations, double passes) {
      const double weights = sampler.rate();
      return EngineRate{weights, weights * operations / machine.fma_per_second,
                        weights * 4 * passes / machine.copy_bytes_per_second};
    };
    row.forward = rate(forward_, operations_.forward, 1);
    row.backward = rate(backward_, operations_.backward, 1);
    row.step = rate(step_, operations_.forward + operations_.backward, 2);
    row.step_seconds = static_cast<double>(row.weights) / row.step.weights_per_second;
    row.samples = step_.samples();
    return row;
  }

 private:
  void check_all_generated(const EngineShape& shape, const Registry& types) const {
    if (bottleneck_.layers().size() == shape.tensors.size()) return;
    for (const NamedParameter& layer : shape.tensors)
      if (!types.find_by_module(layer.info.module_type))
        throw Error(Errc::kPluginMissing, "no loaded plugin takes " + layer.info.module_type +
                                              " layers; see `gbcompress plugins list`");
    throw Error(Errc::kUsage, "shape " + printable(shape.name) +
                                  " has a layer that is smaller than its g-net; give a larger one");
  }
  static BottleneckOptions options(const EngineShape& shape, const std::string& kernel) {
    BottleneckOptions options;
    options.gnet = shape.gnet;
    options.kernel = kernel;
    options.min_elements = 1;
    return options;
  }
  /// As a backward pass through the model would, without its cost.
  void give_gradients() {
    for (std::size_t l = 0; l < gradients_.size(); ++l)
      bottleneck_.layers()[l].weights.mutable_grad() = gradients_[l];
  }
  void step() {
    bottleneck_.zero_grad();
    bottleneck_.predict_weights();
    give_gradients();
    bottleneck_.backward();
    bottleneck_.step();
  }

  GenomicBottleneck bottleneck_;
  std::vector<at::Tensor> gradients_;
  EngineRow row_;
  WeightOperations operations_;
  RateSampler forward_{1}, backward_{1}, step_{1};
};

}  // namespace

EngineReport measure_engine(const Registry& types, const EngineOptions& options) {
  if (!(options.seconds > 0)) throw Error(Errc::kUsage, "the seconds to measure must be above 0");
  const at::NoGradGuard no_grad;
  EngineReport report;
  report.kernel = options.kernel;
  double load[1] = {0};
  if (::getloadavg(load, 1) == 1) report.load_average = load[0];
  std::vector<std::unique_ptr<Run>> runs;
  for (const std::string& name : options.shapes.empty() ? engine_shapes() : options.shapes) {
    throw_if_interrupted();
    runs.push_back(std::make_unique<Run>(make_engine_shape(name), types, options.kernel));
  }
  for (const auto& run : runs) run->measure_memory();
  MachineProbe machine;
  const auto start = Clock::now();
  const double total = options.seconds * static_cast<double>(runs.size());
  do {
    for (const auto& run : runs) {
      throw_if_interrupted();
      machine.sample();
      run->sample();
    }
  } while (seconds_since(start) < total);
  report.machine = machine.rates();
  for (const auto& run : runs) report.rows.push_back(run->row(report.machine));
  return report;
}

}  // namespace gbcompress
