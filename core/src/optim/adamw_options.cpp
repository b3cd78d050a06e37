#include <cmath>
#include <string>

#include "gbcompress/error.h"
#include "optim/adamw_step.h"

namespace gbcompress {
namespace {

void require(bool holds, const char* name, const char* range, double value) {
  if (!holds)
    throw Error(Errc::kUsage, std::string("the optimizer's ") + name + " is " +
                                  std::to_string(value) + "; it must be " + range);
}

}  // namespace

void check_optimizer(const AdamWOptions& options) {
  require(std::isfinite(options.lr) && options.lr >= 0, "learning rate", "0 or more", options.lr);
  require(options.momentum >= 0 && options.momentum < 1, "momentum", "at least 0 and below 1",
          options.momentum);
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2", "at least 0 and below 1",
          options.beta2);
  require(std::isfinite(options.eps) && options.eps > 0, "eps", "above 0", options.eps);
  require(std::isfinite(options.weight_decay) && options.weight_decay >= 0, "weight decay",
          "0 or more", options.weight_decay);
}

void check_lr_factor(double lr_factor) {
  require(std::isfinite(lr_factor) && lr_factor >= 0, "learning-rate factor", "0 or more",
          lr_factor);
}

AdamWStep adamw_factors(const AdamWOptions& options, double lr, std::int64_t steps) {
  const auto t = static_cast<double>(steps);
  return {static_cast<float>(1 - lr * options.weight_decay),
          static_cast<float>(1 - options.momentum),
          static_cast<float>(options.beta2),
          static_cast<float>(1 - options.beta2),
          static_cast<float>(lr / (1 - std::pow(options.momentum, t))),
          static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, t))),
          static_cast<float>(options.eps)};
}

SgdStep sgd_factors(const AdamWOptions& options, double lr) {
  return {static_cast<float>(options.weight_decay), static_cast<float>(options.momentum),
          static_cast<float>(lr)};
}

}  // namespace gbcompress
