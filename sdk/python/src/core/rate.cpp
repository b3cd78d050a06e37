// The rate of integers in training: the kernel of core/src/rate, and scales of the entropy model.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>

#include "base/glob.h"
#include "base/random.h"
#include "gbcompress/artifact.h"
#include "gbcompress/codec.h"
#include "gbcompress/error.h"
#include "module.h"
#include "pieces.h"
#include "rate/laplace_rate.h"

namespace gbcompress::python {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw Error(Errc::kShapeMismatch, what);
}

template <typename T>
std::span<T> part(std::span<T> all, const Segment& segment) {
  return all.subspan(static_cast<std::size_t>(segment.first),
                     static_cast<std::size_t>(segment.count));
}

/// @return bits, and the gradient of each step's logarithm
std::pair<double, std::vector<double>> rate(const Input<float>& latent, const Input<float>& steps,
                                            const Input<float>& inverse_scale, double weight,
                                            std::uint32_t key, const InOut<float>& gradient,
                                            int threads) {
  const auto n = static_cast<std::int64_t>(latent.size());
  require(inverse_scale.size() == latent.size() && gradient.size() == latent.size(),
          "latents, scales and gradients must have the same number of elements");
  const std::vector<Segment> segments = segments_of(n, steps.size());
  std::vector<RateSums> sums(segments.size());
  {
    const nb::gil_scoped_release release;
    in_parallel(threads, n, segments.size(), [&](std::size_t i) {
      const Segment& segment = segments[i];
      sums[i] =
          laplace_rate(part(span_of(latent), segment), steps.data()[segment.group],
                       part(span_of(inverse_scale), segment), static_cast<float>(weight), key,
                       static_cast<std::uint32_t>(segment.first), part(span_of(gradient), segment));
    });
  }
  double bits = 0;
  std::vector<double> slopes(steps.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    bits += sums[i].bits;
    slopes[segments[i].group] += sums[i].log_step_gradient;
  }
  return {bits, slopes};
}

void round_to(const Input<float>& latent, const Input<float>& steps, const InOut<float>& rounded,
              int threads) {
  const auto n = static_cast<std::int64_t>(latent.size());
  require(rounded.size() == latent.size(),
          "latents and rounded values must have the same number of elements");
  const std::vector<Segment> segments = segments_of(n, steps.size());
  const nb::gil_scoped_release release;
  in_parallel(threads, n, segments.size(), [&](std::size_t i) {
    round_to_step(part(span_of(latent), segments[i]), steps.data()[segments[i].group],
                  rounded.data() + segments[i].first);
  });
}

Output<float> scales(const std::vector<std::int64_t>& shape, const Input<std::int32_t>& integers) {
  std::vector<float> result;
  {
    const nb::gil_scoped_release release;
    result = expected_scales(default_grid(shape), span_of(integers));
  }
  return to_numpy<float>(std::move(result));
}

/// Integers of tensors that follow each other in one stream, for the least squared error plus
/// lambda times the bits.
nb::list choose(const std::vector<std::vector<std::int64_t>>& shapes, const nb::list& scaled,
                double lambda) {
  std::vector<Input<float>> numbers;
  for (const nb::handle item : scaled) numbers.push_back(nb::cast<Input<float>>(item));
  require(numbers.size() == shapes.size(), "there must be one shape for each tensor");
  std::vector<std::vector<std::int32_t>> chosen;
  {
    const nb::gil_scoped_release release;
    IntegerEncoder encoder(CodecProfile::kSmall);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      chosen.push_back(
          encoder.quantize_and_add(default_grid(shapes[i]), span_of(numbers[i]), {}, lambda));
  }
  nb::list result;
  for (auto& integers : chosen) result.append(to_numpy<std::int32_t>(std::move(integers)));
  return result;
}

}  // namespace

void bind_rate(nb::module_& module) {
  module.def("laplace_rate", &rate, nb::arg("latent"), nb::arg("steps"), nb::arg("inverse_scale"),
             nb::arg("weight"), nb::arg("key"), nb::arg("gradient"), nb::arg("threads") = 0);
  module.def("round_to_step", &round_to, nb::arg("latent"), nb::arg("steps"), nb::arg("rounded"),
             nb::arg("threads") = 0);
  module.def("expected_scales", &scales, nb::arg("shape"), nb::arg("integers"));
  module.def("choose", &choose, nb::arg("shapes"), nb::arg("scaled"), nb::arg("rate_weight"));
  module.def(
      "matches_glob",
      [](const std::string& pattern, const std::string& text) {
        return matches_glob(pattern, text);
      },
      nb::arg("pattern"), nb::arg("text"));
  module.def("step_size", &step_size, nb::arg("index"));
  module.def("nearest_step", &nearest_step, nb::arg("size"));
  module.def(
      "noise_key",
      [](std::uint64_t seed, const std::string& name, std::uint64_t step) {
        return RandomStream(seed, "rate", name, step).bits(0);
      },
      nb::arg("seed"), nb::arg("name"), nb::arg("step"));
}

}  // namespace gbcompress::python
