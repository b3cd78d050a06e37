#include "gbcompress/strategy.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "gbcompress/compress.h"
#include "gbcompress/error.h"
#include "support/files.h"
#include "support/layer_types.h"

namespace gbcompress {
namespace {

/// Backpropagation multiplied by a number of its own that grows with every step: wrong where state
/// is not carried on.
class Growing : public Strategy {
 public:
  inline static std::vector<std::string> needed = {};
  inline static std::vector<std::int64_t> rows = {};

  std::vector<std::string> needs() const override { return needed; }
  std::vector<std::string> options() const override { return {"start"}; }
  void build(const StrategySetup& setup) override {
    setup_.emplace(setup);
    const auto start = setup.options.find("start");
    factor_.fill_(start == setup.options.end() ? 1 : std::stod(start->second));
  }
  Measurements step(const StrategyBatch& batch) override {
    rows.push_back(batch.inputs.size(0));
    const double factor = factor_.item<double>();
    const at::Tensor loss = setup_->loss(setup_->model.forward(batch.inputs), batch);
    (loss * factor * batch.weight).backward();
    factor_ *= 1.1;
    return {loss.item<double>(), {{"factor", factor}}};
  }
  std::vector<StateEntry> aux_state() const override { return {{"factor", factor_.clone()}}; }
  void restore(const std::vector<StateEntry>& state) override { factor_.copy_(state.at(0).value); }

 private:
  std::optional<StrategySetup> setup_;
  at::Tensor factor_ = torch::ones({1}, torch::kDouble);
};

class StrategyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    types_.stage("program", [](Registrar& staging) {
      register_builtin_models(staging);
      staging.register_model("silent", [](const ModelRequest& request) {
        BuiltModel net = request.build("mlp:64-32-10");
        net.stages.clear();
        return net;
      });
      staging.register_strategy("growing", [] { return std::make_unique<Growing>(); });
      staging.register_strategy("nothing", []() -> std::unique_ptr<Strategy> { return nullptr; });
    });
    Growing::needed = {};
    Growing::rows = {};
    torch::manual_seed(1);
    model_ = build_model("mlp:64-32-10", types_);
    bottleneck_.emplace(model_->tensors(), types_);
  }
  StrategySetup setup() {
    return strategy_setup(*model_, *bottleneck_, data_.train, options_, nullptr);
  }
  /// What makes it refuse.
  std::string refusal(const StrategyChoice& choice, Errc wanted = Errc::kUsage) {
    try {
      make_strategy(choice, setup(), types_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), wanted) << error.what();
      return error.what();
    }
    ADD_FAILURE() << choice.name << " was made";
    return "";
  }

  Registry types_ = test_registry();
  Data data_ = open_data("digits");
  std::unique_ptr<Model> model_;
  std::optional<GenomicBottleneck> bottleneck_;
  TrainOptions options_;
};

void expect_has(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "not \"" << part << "\" in: " << message;
}

TEST_F(StrategyTest, UnknownNamesSayTheKnownOnes) {
  EXPECT_EQ(known_strategies(types_), (std::vector<std::string>{"backprop", "growing", "nothing"}));
  expect_has(
      refusal({"growin", ""}, Errc::kPluginMissing),
      {"growin", "did you mean growing", "backprop, growing, nothing", "PluginHost::load()"});
  expect_has(refusal({"nothing", ""}, Errc::kFailure), {"nothing", "defect"});
}

TEST_F(StrategyTest, OptionsAreTheStrategysOwn) {
  EXPECT_NE(make_strategy({"growing", " start=2 "}, setup(), types_), nullptr);
  expect_has(refusal({"growing", "stat=2"}), {"stat", "did you mean start"});
  expect_has(refusal({"growing", "start"}), {"KEY=VALUE"});
  expect_has(refusal({"growing", "start=1 start=2"}), {"twice"});
  expect_has(refusal({"backprop", "start=2"}), {"backprop", "takes none"});
}

TEST_F(StrategyTest, NeedsAreMetOrNamed) {
  Growing::needed = {"stages"};
  EXPECT_NE(make_strategy({"growing", ""}, setup(), types_), nullptr);
  const auto silent = build_model("silent", types_);
  GenomicBottleneck other(silent->tensors(), types_);
  StrategySetup without = strategy_setup(*silent, other, data_.train, options_, nullptr);
  EXPECT_THROW(make_strategy({"growing", ""}, without, types_), Error);
  Growing::needed = {"moonlight"};
  expect_has(refusal({"growing", ""}), {"moonlight", "newer"});
}

TEST_F(StrategyTest, TrainGivesItEveryRowOfABatchInShards) {
  options_.epochs = 1;
  options_.batch = 100;
  options_.shards = 2;
  options_.strategy.name = "growing";
  auto strategy = make_strategy(options_.strategy, setup(), types_);
  double last = 0;
  train(
      *model_, *bottleneck_, data_.train, options_, nullptr,
      [&](const Progress& p) { last = p.measured.at("factor"); }, {}, strategy.get());
  ASSERT_EQ(Growing::rows.size(), 2 * 15u);
  EXPECT_EQ(Growing::rows[0], 50);
  EXPECT_EQ(Growing::rows.back(), 19);  // 1437 = 14 * 100 + 37, in shards of 18 and 19
  EXPECT_NEAR(last, std::pow(1.1, 29), 1e-9);

  Growing::needed = {"whole-batch"};
  EXPECT_THROW(train(*model_, *bottleneck_, data_.train, options_, nullptr, {}, {}, strategy.get()),
               Error);
  options_.shards = 0;
  Growing::rows.clear();
  train(*model_, *bottleneck_, data_.train, options_, nullptr, {}, {}, strategy.get());
  EXPECT_EQ(Growing::rows.size(), 15u);
}

TEST_F(StrategyTest, NoStrategyIsBackprop) {
  options_.epochs = 1;
  const auto weights = [&](bool named) {
    torch::manual_seed(1);
    const auto model = build_model("mlp:64-32-10", types_);
    GenomicBottleneck bottleneck(model->tensors(), types_);
    std::unique_ptr<Strategy> made;
    if (named)
      made = make_strategy({}, strategy_setup(*model, bottleneck, data_.train, options_, nullptr),
                           types_);
    train(*model, bottleneck, data_.train, options_, nullptr, {}, {}, made.get());
    return model->tensors()[0].tensor.detach().clone();
  };
  EXPECT_TRUE(at::equal(weights(true), weights(false)));
}

class StrategyRuns : public StrategyTest {
 protected:
  CompressOptions run_options() {
    CompressOptions o;
    o.output = folder_ / "m.gbz";
    o.overwrite = true;
    o.target.max_bytes = 4000;
    o.train.epochs = 2;
    o.train.fit_steps = 3;
    o.train.strategy.name = "growing";
    o.checkpoints.every_steps = 10;
    o.checkpoints.every_minutes = 0;
    o.remove_checkpoints = false;
    return o;
  }
  std::string identity(const CompressOptions& o) {
    torch::manual_seed(1);
    const auto model = build_model("mlp:64-32-10", types_);
    return compress(*model, 19'600, &data_, nullptr, types_, o).identity;
  }
  testing::TempDir folder_;
};

TEST_F(StrategyRuns, CompressGoesOnWithItsState) {
  CompressOptions whole = run_options();
  const std::string expected = identity(whole);
  CompressOptions plain = run_options();
  plain.train.strategy = {};
  EXPECT_NE(identity(plain), expected) << "the strategy changes nothing";

  CompressOptions stopped = run_options();
  stopped.checkpoints.folder = folder_ / "checkpoints";
  torch::manual_seed(1);
  const auto model = build_model("mlp:64-32-10", types_);
  const auto stop = [](const Progress& p) {
    if (p.phase == "train" && p.done == 25) throw Error(Errc::kInterrupted, "enough");
  };
  EXPECT_THROW(compress(*model, 19'600, &data_, nullptr, types_, stopped, stop), Error);
  CompressOptions resumed = stopped;
  resumed.checkpoints.resume = folder_ / "checkpoints";
  EXPECT_EQ(identity(resumed), expected);
}

TEST_F(StrategyRuns, CompressRefusesWhatCannotBe) {
  const auto code = [&](const CompressOptions& o, const Data* data) {
    try {
      compress(*model_, 19'600, data, nullptr, types_, o);
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::kFailure;
  };
  CompressOptions unknown = run_options();
  unknown.train.strategy.name = "magic";
  EXPECT_EQ(code(unknown, &data_), Errc::kPluginMissing);
  CompressOptions blind = run_options();
  blind.train.loss = Loss::kWeights;
  EXPECT_EQ(code(blind, nullptr), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
