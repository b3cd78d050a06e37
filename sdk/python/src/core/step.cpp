// A step of an optimizer with the rate: three calls for all tensors of the CPU together.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <utility>

#include "base/random.h"
#include "gbcompress/artifact.h"
#include "gbcompress/error.h"
#include "module.h"
#include "pieces.h"
#include "rate/laplace_rate.h"

namespace gbcompress::python {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999;
constexpr float kEpsilon = 1e-8F;
constexpr double kStepsPerOctave = 16;

/// Where a tensor lies in the arrays that hold those of all.
struct Tensor {
  std::string name;
  std::int64_t first, count;
  std::size_t first_step, steps;
};

/// A step of such a tensor. Sums of pieces are added in order.
struct Piece {
  std::size_t tensor, step;
  std::int64_t first, count;  ///< in the tensor
};

/// Latents of the CPU and their steps. The arrays are the caller's, who keeps them and may
/// change their values between calls. Formulas are those of gbcompress._train.latents.Latents.
class Stepper {
 public:
  /// @param tensors        name, numbers, steps: 1, or one for each of so many equal parts
  /// @param latent         numbers of all tensors, one after another; inverse_scale too
  /// @param log_steps      logarithms of all steps over `speed`; `first` and `second` moments,
  ///                       `indices` and sizes of the `steps` that they mean too
  Stepper(const std::vector<std::tuple<std::string, std::int64_t, std::size_t>>& tensors,
          InOut<float> latent, Input<float> inverse_scale, InOut<float> log_steps,
          InOut<float> first, InOut<float> second, InOut<std::int64_t> indices, InOut<float> steps,
          double speed)
      : latent_(std::move(latent)),
        inverse_scale_(std::move(inverse_scale)),
        log_steps_(std::move(log_steps)),
        first_(std::move(first)),
        second_(std::move(second)),
        indices_(std::move(indices)),
        steps_(std::move(steps)),
        speed_(speed) {
    std::int64_t at = 0;
    std::size_t step = 0;
    for (const auto& [name, count, own] : tensors) {
      for (const Segment& segment : segments_of(count, own))
        pieces_.push_back({tensors_.size(), step + segment.group, segment.first, segment.count});
      tensors_.push_back({name, at, count, step, own});
      at += count;
      step += own;
    }
    const bool fits = latent_.size() == static_cast<std::size_t>(at) &&
                      inverse_scale_.size() == latent_.size() && log_steps_.size() == step &&
                      first_.size() == step && second_.size() == step && indices_.size() == step &&
                      steps_.size() == step;
    if (!fits)
      throw Error(Errc::kShapeMismatch,
                  "latents and steps must have the sizes that the tensors say");
    sums_.resize(pieces_.size());
    slopes_.resize(step);
  }

  /// Adds the rate's gradients.
  /// @param gradients  addresses of contiguous float32 numbers, one a tensor
  /// @return index of the first tensor whose gradient is not finite, or -1
  std::int64_t add_rate(const std::vector<std::uintptr_t>& gradients, double weight,
                        std::uint64_t seed, std::uint64_t step, bool count_bits, int threads) {
    check(gradients);
    const nb::gil_scoped_release release;
    std::vector<std::uint32_t> keys;
    for (const Tensor& tensor : tensors_)
      keys.push_back(RandomStream(seed, "rate", tensor.name, step).bits(0));
    for_pieces(threads, [&](std::size_t i, const Piece& piece, const Tensor& tensor) {
      sums_[i] = laplace_rate(numbers(latent_, tensor, piece), steps_.data()[piece.step],
                              numbers(inverse_scale_, tensor, piece), static_cast<float>(weight),
                              keys[piece.tensor], static_cast<std::uint32_t>(piece.first),
                              memory(gradients, piece), count_bits);
    });
    std::fill(slopes_.begin(), slopes_.end(), 0.0);
    double bits = 0;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      bits += sums_[i].bits;
      slopes_[pieces_[i].step] += sums_[i].log_step_gradient;
    }
    if (count_bits) bits_ = bits;
    for (const Piece& piece : pieces_)
      if (!std::isfinite(slopes_[piece.step])) return static_cast<std::int64_t>(piece.tensor);
    return -1;
  }

  /// Latents into the parameters. An address of 0 is left out.
  void put(const std::vector<std::uintptr_t>& parameters, int threads) const {
    check(parameters);
    const nb::gil_scoped_release release;
    for_pieces(threads, [&](std::size_t, const Piece& piece, const Tensor& tensor) {
      if (parameters[piece.tensor] == 0) return;
      const std::span<const float> from = numbers(latent_, tensor, piece);
      std::memcpy(memory(parameters, piece).data(), from.data(), from.size_bytes());
    });
  }

  /// Reads latents back from the parameters, updates step sizes; the parameters get
  /// rounded values. An address of 0 is left out.
  /// @param rates  learning rates, one a tensor
  void take(const std::vector<std::uintptr_t>& parameters, const std::vector<double>& rates,
            std::int64_t updates, int threads) {
    check(parameters);
    if (rates.size() != tensors_.size())
      throw Error(Errc::kShapeMismatch, "there must be a learning rate for each tensor");
    const nb::gil_scoped_release release;
    learn_steps(rates, updates);
    for_pieces(threads, [&](std::size_t, const Piece& piece, const Tensor& tensor) {
      if (parameters[piece.tensor] == 0) return;
      const std::span<float> parameter = memory(parameters, piece);
      const std::span<float> latent = numbers(latent_, tensor, piece);
      std::memcpy(latent.data(), parameter.data(), latent.size_bytes());
      round_to_step(latent, steps_.data()[piece.step], parameter.data());
    });
  }

  double bits() const { return bits_; }
  const std::vector<double>& slopes() const { return slopes_; }

 private:
  template <typename T>
  static std::span<T> numbers(const nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>& of,
                              const Tensor& tensor, const Piece& piece) {
    return {of.data() + tensor.first + piece.first, static_cast<std::size_t>(piece.count)};
  }
  static std::span<float> memory(const std::vector<std::uintptr_t>& addresses, const Piece& piece) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): torch tells addresses as numbers
    return {reinterpret_cast<float*>(addresses[piece.tensor]) + piece.first,
            static_cast<std::size_t>(piece.count)};
  }

  void check(const std::vector<std::uintptr_t>& addresses) const {
    if (addresses.size() != tensors_.size())
      throw Error(Errc::kShapeMismatch, "there must be an address for each tensor");
  }

  template <typename Body>
  void for_pieces(int threads, const Body& body) const {
    in_parallel(threads, static_cast<std::int64_t>(latent_.size()), pieces_.size(),
                [&](std::size_t i) { body(i, pieces_[i], tensors_[pieces_[i].tensor]); });
  }

  /// One update of Adam.
  void learn_steps(const std::vector<double>& rates, std::int64_t updates) {
    const auto t = static_cast<double>(updates);
    const auto first_part = static_cast<float>(1 - std::pow(kBeta1, t));
    const auto second_part = static_cast<float>(std::sqrt(1 - std::pow(kBeta2, t)));
    const auto speed = static_cast<float>(speed_);
    float *const logs = log_steps_.data(), *const first = first_.data(),
                 *const second = second_.data();
    for (std::size_t n = 0; n < tensors_.size(); ++n)
      for (std::size_t i = 0; i < tensors_[n].steps; ++i) {
        const std::size_t k = tensors_[n].first_step + i;
        const auto gradient = static_cast<float>(slopes_[k] * speed_);
        first[k] += static_cast<float>(1 - kBeta1) * (gradient - first[k]);
        second[k] = second[k] * static_cast<float>(kBeta2) +
                    static_cast<float>(1 - kBeta2) * gradient * gradient;
        const float root = std::sqrt(second[k]) / second_part + kEpsilon;
        logs[k] -= static_cast<float>(rates[n]) * (first[k] / first_part) / root;
        const double index = std::nearbyint(static_cast<double>(logs[k] * speed) *
                                            (kStepsPerOctave / std::numbers::ln2));
        indices_.data()[k] =
            static_cast<std::int64_t>(std::clamp<double>(index, kMinStep, kMaxStep));
        steps_.data()[k] = step_size(static_cast<int>(indices_.data()[k]));
      }
  }

  InOut<float> latent_;
  Input<float> inverse_scale_;
  InOut<float> log_steps_, first_, second_;
  InOut<std::int64_t> indices_;
  InOut<float> steps_;
  double speed_, bits_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<Piece> pieces_;
  std::vector<RateSums> sums_;
  std::vector<double> slopes_;
};

}  // namespace

void bind_step(nb::module_& module) {
  nb::class_<Stepper>(module, "Stepper")
      .def(nb::init<const std::vector<std::tuple<std::string, std::int64_t, std::size_t>>&,
                    InOut<float>, Input<float>, InOut<float>, InOut<float>, InOut<float>,
                    InOut<std::int64_t>, InOut<float>, double>())
      .def("add_rate", &Stepper::add_rate)
      .def("put", &Stepper::put)
      .def("take", &Stepper::take)
      .def_prop_ro("bits", &Stepper::bits)
      .def_prop_ro("slopes", &Stepper::slopes);
}

}  // namespace gbcompress::python
