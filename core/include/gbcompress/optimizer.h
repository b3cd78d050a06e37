#pragma once
/// AdamW, and learning-rate schedules.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gbcompress {

/// Defaults of torchGB.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< decoupled
};

/// One fused pass over parameters, gradients and both moments. (Loshchilov and Hutter,
/// arXiv 1711.05101.)
class AdamW {
 public:
  /// What the next step depends on beside the parameters. Shapes and order are the parameters'.
  struct State {
    std::vector<std::int64_t> steps;
    std::vector<at::Tensor> first, second;  ///< both moments
  };

  /// @param parameters  dense, of a floating type; updated in place
  /// @throws Error(kUsage) for another kind of tensor or an option out of range
  AdamW(std::vector<at::Tensor> parameters, AdamWOptions options);
  /// @param gradients  of the parameters' shapes and types; an undefined one leaves its parameter
  ///                   and its step count as they are
  /// @param lr_factor  multiplies options.lr for this step, 0 or more
  /// @throws Error(kShapeMismatch, kUsage); nothing has then been changed
  void step(const std::vector<at::Tensor>& gradients, double lr_factor = 1);
  /// Calls of step() since the beginning or since what restore() brought back.
  std::int64_t steps() const noexcept;
  const AdamWOptions& options() const noexcept { return options_; }

  /// A copy; restoring it gives the same bits from there on.
  State state() const;
  /// @throws Error(kShapeMismatch) for a state of other parameters; nothing has then been changed
  void restore(const State& state);

 private:
  AdamWOptions options_;
  std::vector<at::Tensor> parameters_;
  State state_;
};

enum class Schedule : std::uint8_t {
  kConstant,
  kCosine,    ///< linear warm-up over the first tenth, then half a cosine to 0
  kOneCycle,  ///< cosine from 1/25 up to 1 over the first tenth, cosine down to 1/250,000
};
std::string_view schedule_name(Schedule schedule) noexcept;  ///< "constant", "cosine", "one_cycle"
std::optional<Schedule> parse_schedule(std::string_view name) noexcept;
/// Factor on the learning rate of step `step` of `total`, 0 <= step < total. Always above 0: cosine
/// would reach 0 one step behind the last.
/// @throws Error(kUsage) for a step outside
double schedule_factor(Schedule schedule, std::int64_t step, std::int64_t total);

}  // namespace gbcompress
