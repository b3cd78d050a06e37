#pragma once
/// AdamW over one contiguous buffer, and learning-rate schedules.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

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
  /// @param parameters  contiguous float32; updated in place
  /// @throws Error(kUsage) for another kind of tensor or an option out of range
  AdamW(at::Tensor parameters, AdamWOptions options);
  /// @param gradients  same shape as the parameters
  /// @param lr_factor  multiplies options.lr for this step, 0 or more
  /// @throws Error(kShapeMismatch, kUsage); nothing has then been changed
  void step(const at::Tensor& gradients, double lr_factor = 1);
  std::int64_t steps() const noexcept { return steps_; }
  const AdamWOptions& options() const noexcept { return options_; }

 private:
  AdamWOptions options_;
  at::Tensor parameters_, first_, second_;
  std::int64_t steps_ = 0;
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
