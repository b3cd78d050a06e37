#include "format/torch/training_state.h"

#include <gtest/gtest.h>

namespace gbcompress {
namespace {

TEST(TrainingState, IsKnownByATensorsName) {
  for (const char* name : {"optimizer.state.3.step", "layers.0.weight.exp_avg", "x.momentum_buffer",
                           "state.optim.x", "fc.weight_exp_avg_sq", "Optimizers.0.lr",
                           "optim_state.a", "trainer.step", "lr_scheduler.last_lr"})
    EXPECT_TRUE(is_training_tensor(name)) << name;
  for (const char* name : {"layers.0.weight", "experience.avg", "suboptimal.weight",
                           "optimal.weight", "optimizer", "net.trainer.weight", "amp_exp_average"})
    EXPECT_FALSE(is_training_tensor(name)) << name;
}

}  // namespace
}  // namespace gbcompress
