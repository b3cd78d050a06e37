#include "format/torch/training_state.h"

#include <gtest/gtest.h>

namespace gbcompress {
namespace {

TEST(TrainingState, IsKnownByATensorsName) {
  for (const char* name : {"optimizer.state.3.step", "Optimizers.0.state.1.exp_avg",
                           "x.optim.state.0.momentum_buffer", "optimizer_states.12.state.0.a.b"})
    EXPECT_TRUE(is_training_tensor(name)) << name;
  for (const char* name :
       {"layers.0.weight", "optimizer.net.weight", "policy.optimizer.lstm.weight",
        "queue.momentum_buffer", "optimizer.state.weight", "optimizer.state.0", "state.0.exp_avg",
        "optimizer_net.0.weight", "trainer.step", "optimizer.0.weight"})
    EXPECT_FALSE(is_training_tensor(name)) << name;
}

}  // namespace
}  // namespace gbcompress
