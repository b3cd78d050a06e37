// How far up the methods a run goes.
#include "gbcompress/options.h"
#include "gbcompress/plan.h"

namespace gbcompress {

Effort effort_of(const CompressOptions& options) {
  if (options.effort) return *options.effort;
  const Choices& c = options.choose;
  const bool left_to_the_program = c.loss && c.epochs && c.batch && c.learning_rate &&
                                   c.step_speed && c.augmentation && c.lambda &&
                                   options.train.strategy.name == StrategyChoice().name;
  return has_size(options.target) && left_to_the_program ? Effort::kBalanced : Effort::kMax;
}

bool may_train(const CompressOptions& options) {
  return options.train.loss != Loss::kWeights && options.train.epochs > 0 &&
         effort_of(options) != Effort::kFast;
}

bool tries_cheaper_methods(const CompressOptions& options) {
  return effort_of(options) != Effort::kMax && has_size(options.target) && !options.from_scratch &&
         options.train.loss != Loss::kWeights &&
         options.bottleneck.mode == WeightMode::kQuantized && !has_gnets(options.bottleneck);
}

}  // namespace gbcompress
