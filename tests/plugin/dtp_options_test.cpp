/// Difference target propagation: its options and its optimizers.
#include "plugin/dtp_training.h"

namespace gbcompress {
namespace {

using test::expect_has;
using test::host;
using test::refusal;
using test::Training;
using test::usage_refusal;

/// Feedback weights of the last network after so many steps of one iteration each.
at::Tensor feedback_after(int steps, const std::string& options) {
  Training run("mlp:64-48-32-10", "K=1 feedback_lr=0.01 " + options, {64});
  for (int i = 0; i < steps; ++i) run.step();
  at::Tensor found;
  for (const StateEntry& entry : run.strategy->aux_state())
    if (entry.name.ends_with("#feedback")) found = entry.value.clone();
  return found;
}

TEST(Dtp, MomentumAndWeightDecayAreThoseOfSgdInEveryVariant) {
  for (const char* variant : {"dtp", "vanilla", "tp", "parallel"}) {
    const std::string sgd = std::string("feedback_optimizer=sgd variant=") + variant + " ";
    const at::Tensor begin = feedback_after(0, sgd);
    const at::Tensor one = feedback_after(1, sgd + "momentum=0.5"),
                     two = feedback_after(2, sgd + "momentum=0.5"),
                     without = feedback_after(2, sgd + "momentum=0");
    // The second step adds half of the first.
    EXPECT_TRUE(at::allclose(two - without, 0.5 * (one - begin), 1e-3, 1e-7)) << variant;
    EXPECT_GT((one - begin).norm().item<double>(), 1e-6) << variant;
    const at::Tensor decayed = feedback_after(1, sgd + "momentum=0.5 feedback_decay=0.25");
    EXPECT_TRUE(at::allclose(one - decayed, begin * (0.01 * 0.25), 1e-3, 1e-7)) << variant;
  }
}

TEST(Dtp, Beta2AndWeightDecayAreThoseOfAdam) {
  const std::string adam = "variant=vanilla ";
  const at::Tensor begin = feedback_after(0, adam);
  EXPECT_TRUE(at::equal(feedback_after(3, adam), feedback_after(3, adam + "feedback_beta2=0.95")));
  EXPECT_FALSE(
      at::equal(feedback_after(3, adam), feedback_after(3, adam + "feedback_beta2=0.999")));
  const at::Tensor one = feedback_after(1, adam),
                   decayed = feedback_after(1, adam + "feedback_decay=0.5");
  EXPECT_TRUE(at::allclose(one - decayed, begin * (0.01 * 0.5), 1e-3, 1e-7));
}

TEST(Dtp, AnIterationAveragesOverItsDrawsOfNoise) {
  const auto change = [](const std::string& draws) {
    return feedback_after(1, "samples=" + draws) - feedback_after(0, "samples=" + draws);
  };
  const at::Tensor many = change("256");
  // The deviation from the mean falls with the root of the number of draws.
  const double of_one = (change("1") - many).norm().item<double>(),
               of_64 = (change("64") - many).norm().item<double>();
  EXPECT_GT(of_one, 3 * of_64);
  EXPECT_GT(of_64, 0);
}

TEST(Dtp, OptionsAreChecked) {
  const std::string arch = "mlp:64-48-32-10";
  expect_has(refusal(arch, "K=1,2,3"), {"K has 3 values", "2 feedback networks"});
  expect_has(refusal(arch, "sigma=0.1,0.2,0.3"), {"sigma has 3 values"});
  expect_has(refusal(arch, "sigma=0"), {"sigma", "100"});
  expect_has(refusal(arch, "K=1.5"), {"K", "integers"});
  expect_has(refusal(arch, "K=-1"), {"K"});
  expect_has(refusal(arch, "momentum=1"), {"momentum"});
  for (const char* variant : {"vanilla", "tp", "parallel"})
    expect_has(refusal(arch, std::string("momentum=0.5 variant=") + variant),
               {"momentum is an option of SGD", std::string("variant ") + variant, "Adam",
                "feedback_optimizer=sgd"});
  expect_has(refusal(arch, "feedback_beta2=0.9"),
             {"feedback_beta2 is an option of Adam", "variant dtp", "feedback_optimizer=adam"});
  expect_has(refusal(arch, "feedback_optimizer=rmsprop"), {"feedback_optimizer", "sgd or adam"});
  expect_has(refusal(arch, "feedback_optimizer=sgd variant=tp"), {"needs feedback_lr", "tp"});
  expect_has(refusal(arch, "variant=tp feedback_beta2=1"), {"feedback_beta2", "0.999999"});
  expect_has(refusal(arch, "feedback_decay=-1"), {"feedback_decay"});
  expect_has(refusal(arch, "samples=0"), {"samples"});
  expect_has(refusal(arch, "variant=best"), {"variant", "dtp, vanilla, tp or parallel"});
  expect_has(refusal(arch, "kappa=3"), {"kappa", "sigma"});
  expect_has(refusal(arch, "shards=3"), {"shards", "power of two"});
  expect_has(refusal("mlp:64-10", ""), {"one stage"});
}

}  // namespace
}  // namespace gbcompress
