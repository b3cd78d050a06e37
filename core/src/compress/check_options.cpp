#include "compress/check_options.h"

#include <string>

#include "gbcompress/error.h"
#include "model/forward_pass.h"

namespace gbcompress {

bool trains(const CompressOptions& options, const Data* data) { return data && may_train(options); }

std::int64_t elements_of(const Model& model) {
  std::int64_t elements = 0;
  for (const NamedParameter& p : model.tensors())
    if (p.tied_to.empty()) elements += p.info.elements();
  return elements;
}

InputSize size_of(const Model& model, std::int64_t input_bytes) {
  double reals = 0, bits = 0;
  for (const NamedParameter& p : model.tensors()) {
    if (!p.tied_to.empty() || !is_real(p.info.dtype)) continue;
    reals += static_cast<double>(p.info.elements());
    bits += static_cast<double>(p.info.elements()) * dtype_bits(p.info.dtype);
  }
  return {input_bytes, elements_of(model), reals > 0 ? bits / reals : 0};
}

void check_options(const CompressOptions& options, const Model& model, const Data* data,
                   const Model* teacher, std::int64_t input_bytes) {
  const Target& target = options.target;
  const int targets = target.ratio.has_value() + target.max_bytes.has_value() +
                      target.bits.has_value() + target.max_drop.has_value() +
                      target.max_error.has_value();
  if (targets > 1)
    throw Error(Errc::kUsage,
                "several targets are set; set one of `ratio`, `max_bytes`, `bits`, `max_drop` and "
                "`max_error`");
  if (target.max_error && !(*target.max_error > 0 && *target.max_error < 1))
    throw Error(Errc::kUsage, "`max_error` must be a number above 0 and below 1, such as 0.001");
  if (target.max_error && options.bottleneck.mode == WeightMode::kGenerated)
    throw Error(Errc::kUsage,
                "`max_error` bounds the error of quantized weights, and `mode` generated has none; "
                "use `mode` quantized, or give `ratio` or `max_bytes`");
  if (target.max_error && options.train.loss != Loss::kWeights)
    throw Error(Errc::kUsage,
                "`max_error` bounds the error to the given weights, and data replace or refit "
                "them; leave `data` out, or give `max_drop`, or `loss` weights");
  if (options.effort && options.bottleneck.mode == WeightMode::kGenerated)
    throw Error(Errc::kUsage,
                "`effort` " + std::string(effort_name(*options.effort)) +
                    " chooses between methods of quantization, and `mode` generated always trains "
                    "g-nets; leave `effort` out, or use `mode` quantized");
  if (options.effort == Effort::kFast && options.from_scratch)
    throw Error(Errc::kUsage,
                "`effort` fast never trains, and a new model must be trained; leave `effort` out");
  target_bytes(target, size_of(model, input_bytes));
  if (target.max_drop && !(*target.max_drop >= 0))
    throw Error(Errc::kUsage, "`max_drop` must be 0 or more, in the unit of the metric");
  if ((target.max_drop || target.no_loss) && !data)
    throw Error(Errc::kUsage, "`max_drop` needs data to measure the quality drop; give `data`");
  if (options.bottleneck.mode == WeightMode::kQuantized && !trains(options, data) && targets == 0)
    throw Error(Errc::kUsage,
                "quantized weights without training need a target; give `ratio`, `max_bytes`, "
                "`bits`, `max_drop` or `max_error`");
  if (options.train.loss != Loss::kWeights && !data)
    throw Error(Errc::kUsage, "`loss` " + std::string(loss_name(options.train.loss)) +
                                  " needs data; give `data`, or use `loss` weights");
  if (data)
    require_forward(model, "so data cannot be used",
                    ", calibrate the module in Python with gbcompress.calibrate(model, batches, "
                    "FILE), or leave `data` out");
  if (options.train.strategy.name != StrategyChoice().name && options.train.loss == Loss::kWeights)
    throw Error(Errc::kUsage, "`strategy` " + printable(options.train.strategy.name) +
                                  " needs data to train on; give `data`, and no `loss` weights");
  if (options.train.loss == Loss::kDistill && !teacher)
    throw Error(Errc::kUsage, "`loss` distill needs a second copy of the model as teacher");
}

}  // namespace gbcompress
