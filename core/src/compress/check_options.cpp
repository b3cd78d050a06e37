#include "compress/check_options.h"

#include <cmath>
#include <cstdio>

#include "gbcompress/error.h"

namespace gbcompress {

bool trains(const CompressOptions& options, const Data* data) {
  return data && options.train.loss != Loss::kWeights && options.train.epochs > 0;
}

void check_options(const CompressOptions& options, const Model& model, const Data* data,
                   const Model* teacher, std::int64_t input_bytes) {
  const Target& target = options.target;
  if (target.ratio.has_value() + target.max_bytes.has_value() + target.max_drop.has_value() +
          target.max_error.has_value() >
      1)
    throw Error(Errc::kUsage, "give one of `ratio`, `max_bytes`, `max_drop` and `max_error`");
  if (target.max_error &&
      (!(*target.max_error > 0 && *target.max_error < 1) ||
       options.bottleneck.mode != WeightMode::kResidual || options.train.loss != Loss::kWeights))
    throw Error(
        Errc::kUsage,
        "`max_error` takes a number between 0 and 1, and needs `mode` residual without data "
        "to train on (or `loss` weights)");
  if (target.ratio && !(*target.ratio > 0 && std::isfinite(*target.ratio)))
    throw Error(Errc::kUsage, "`ratio` must be a number above 0, such as 20");
  if (target.ratio && static_cast<double>(input_bytes) / *target.ratio < kSmallestFile) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "`ratio` %g asks for a file of %.3g bytes; no file is smaller than %lld, so the "
                  "ratio must be below %lld",
                  *target.ratio, static_cast<double>(input_bytes) / *target.ratio,
                  static_cast<long long>(kSmallestFile),
                  static_cast<long long>(input_bytes / kSmallestFile));
    throw Error(Errc::kUsage, text);
  }
  if (target.max_bytes && *target.max_bytes < kSmallestFile)
    throw Error(Errc::kUsage, "`max_bytes` must be at least " + std::to_string(kSmallestFile));
  if (target.max_drop && !(*target.max_drop >= 0))
    throw Error(Errc::kUsage, "`max_drop` must be 0 or more, in the unit of the metric");
  if ((target.max_drop || target.no_loss) && !data)
    throw Error(Errc::kUsage, "`max_drop` needs data to measure quality with; give `data`");
  if (options.bottleneck.mode == WeightMode::kResidual && !trains(options, data) && !target.ratio &&
      !target.max_bytes && !target.max_drop && !target.max_error)
    throw Error(Errc::kUsage,
                "residual parameters that are not trained need a size, a drop or an error to aim "
                "at; give `ratio`, `max_bytes`, `max_drop` or `max_error`");
  if (options.train.loss != Loss::kWeights && !data)
    throw Error(Errc::kUsage, "`loss` " + std::string(loss_name(options.train.loss)) +
                                  " needs data; give `data`, or use `loss` weights");
  if (data && !model.has_forward())
    throw Error(Errc::kUsage,
                "this model is a bare state dict without a forward pass, so data cannot be used; "
                "name its architecture with `arch`, or leave `data` out");
  if (options.train.strategy.name != StrategyChoice().name && options.train.loss == Loss::kWeights)
    throw Error(Errc::kUsage, "`strategy` " + printable(options.train.strategy.name) +
                                  " needs data to train on; give `data`, and no `loss` weights");
  if (options.train.loss == Loss::kDistill && !teacher)
    throw Error(Errc::kUsage, "`loss` distill needs a second copy of the model as teacher");
}

}  // namespace gbcompress
