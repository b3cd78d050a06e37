// G-nets that are integers while they train, and the rate weight over a run.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bottleneck/rate_schedule.h"
#include "gbcompress/codec.h"
#include "gnets.h"
#include "module.h"
#include "optim/coded_gnets.h"
#include "search/fit_size.h"

namespace gbcompress::python {
namespace {

std::vector<float> vector_of(const Input<float>& values) {
  return {values.data(), values.data() + values.size()};
}

RateSchedule schedule_of(double rate_weight, std::int64_t predictions, std::int64_t steps,
                         std::optional<std::int64_t> max_bytes) {
  return RateSchedule(
      {.lambda = rate_weight, .predictions = predictions, .steps = steps, .max_bytes = max_bytes});
}

/// Integers of all g-nets in the order of the file, for the least squared error plus `rate_weight`
/// times the bits.
void choose(const std::vector<CodedGnets*>& all, double rate_weight) {
  const nb::gil_scoped_release release;
  IntegerEncoder encoder(CodecProfile::kSmall);
  for (CodedGnets* each : all) each->choose(rate_weight, encoder);
}

void bind_state(nb::class_<CodedGnets>& bound) {
  bound
      .def(
          "restore",
          [](CodedGnets& gnets, const Input<float>& theta, float output_scale,
             const std::vector<int>& theta_steps) {
            gnets.restore(span_of(theta), output_scale, theta_steps);
          },
          nb::arg("theta"), nb::arg("output_scale"), nb::arg("theta_steps"))
      .def("state",
           [](const CodedGnets& gnets) {
             const CodedGnets::State state = gnets.state();
             nb::dict result;
             result["values"] = copied(state.values);
             result["first_moment"] = copied(state.first);
             result["second_moment"] = copied(state.second);
             result["inverse_scales"] = copied(state.inverse_scales);
             return result;
           })
      .def(
          "restore_state",
          [](CodedGnets& gnets, const Input<float>& values, const Input<float>& first,
             const Input<float>& second, const Input<float>& inverse_scales, std::int64_t steps,
             float output_scale) {
            gnets.restore_state({vector_of(values), vector_of(first), vector_of(second),
                                 vector_of(inverse_scales), steps},
                                output_scale);
          },
          nb::arg("values"), nb::arg("first"), nb::arg("second"), nb::arg("inverse_scales"),
          nb::arg("steps"), nb::arg("output_scale"));
}

void bind_rate_schedule(nb::module_& module) {
  nb::class_<RateSchedule>(module, "RateSchedule")
      .def_static("make", &schedule_of, nb::arg("rate_weight"), nb::arg("predictions"),
                  nb::arg("steps"), nb::arg("max_bytes").none())
      .def("refreshes", &RateSchedule::refreshes)
      .def("contexts", &RateSchedule::contexts)
      .def("steers", &RateSchedule::steers)
      .def("steer", &RateSchedule::steer)
      .def("loss_per_bit", &RateSchedule::loss_per_bit)
      .def("resume", &RateSchedule::resume)
      .def_prop_rw("rate_weight", &RateSchedule::lambda, &RateSchedule::set_lambda);
  module.def("choose_coded", &choose, nb::arg("gnets"), nb::arg("rate_weight"));
  module.def("fit_size", &fit_size, nb::arg("max_bytes"), nb::arg("bytes_at"));
}

}  // namespace

void bind_coded_gnets(nb::module_& module) {
  bind_rate_schedule(module);
  nb::class_<CodedGnets> bound(module, "CodedGnets");
  bound
      .def(
          "__init__",
          [](CodedGnets* self, const GNetSpec& spec, const std::string& name, std::uint64_t seed,
             double lr, double beta1, double beta2, double eps, double weight_decay) {
            new (self) CodedGnets(spec, name, seed,
                                  {.lr = lr,
                                   .momentum = beta1,
                                   .beta2 = beta2,
                                   .eps = eps,
                                   .weight_decay = weight_decay});
          },
          nb::arg("spec"), nb::arg("name"), nb::arg("seed"), nb::arg("lr"), nb::arg("beta1"),
          nb::arg("beta2"), nb::arg("eps"), nb::arg("weight_decay"))
      .def_prop_ro("spec", &CodedGnets::spec)
      .def_prop_ro("steps", &CodedGnets::steps)
      .def_prop_ro("bits", &CodedGnets::bits)
      .def("add_rate", &CodedGnets::add_rate, nb::arg("weight"))
      .def(
          "step", [](CodedGnets& gnets, double lr_factor, int) { gnets.step(lr_factor); },
          nb::arg("lr_factor"), nb::arg("threads"))
      .def("expect", &CodedGnets::expect, nb::arg("contexts"))
      .def("scale_steps", &CodedGnets::scale_steps, nb::arg("factor"))
      .def("forget_chosen", &CodedGnets::forget_chosen);
  bind_calls(bound);
  bind_state(bound);
}

}  // namespace gbcompress::python
