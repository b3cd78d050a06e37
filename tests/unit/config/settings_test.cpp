#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/setting_rows.h"
#include "gbcompress/error.h"
#include "gbcompress/options.h"
#include "gbcompress/version.h"

namespace gbcompress {
namespace {
namespace fs = std::filesystem;

template <typename F>
std::string error_of(F&& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Errc::kConfig || error.code() == Errc::kUsage) << error.what();
    return error.what();
  }
  return "no error";
}

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("gbc-") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& text) {
    std::ofstream(folder_ / "run.toml") << text;
    return folder_ / "run.toml";
  }
  /// The message about a file with this content, its folder left out.
  std::string file_error(const std::string& text) {
    Settings settings;
    const std::string before = settings.to_json();
    const std::string message = error_of([&] { settings.apply_file(write(text)); });
    EXPECT_EQ(settings.to_json(), before) << "changed in spite of the error";
    const std::string prefix = folder_.string() + "/";
    return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
  }

  fs::path folder_;
};

TEST_F(SettingsTest, TheTableOfAStrategyGoesToItAsOneText) {
  Settings settings;
  settings.apply_file(
      write("[strategy]\nname = \"dtp\"\nK = [20, 30]\nsigma = 0.05\nvariant = \"tp\"\n"));
  const StrategyChoice& choice = settings.compress.train.strategy;
  EXPECT_EQ(choice.name, "dtp");
  EXPECT_EQ(choice.options, "K=20,30 sigma=0.05 variant=tp");
  settings.apply_assignment("strategy.K=3,2");
  EXPECT_EQ(choice.options, "sigma=0.05 variant=tp K=3,2");
  settings.apply_assignment("strategy.sigma=[0.1, 0.2]");
  settings.apply_assignment("strategy.variant=\"dtp\"");
  EXPECT_EQ(choice.options, "K=3,2 sigma=0.1,0.2 variant=dtp");
  settings.apply_assignment("strategy.options=K=1");
  EXPECT_EQ(choice.options, "K=1");
  for (const char* wrong : {"strategy.K=", "strategy.K=1 sigma=2", "strategy.a-b=1", "strategy.=1"})
    EXPECT_NE(error_of([&] { settings.apply_assignment(wrong); }), "no error") << wrong;
  EXPECT_EQ(choice.options, "K=1");
  EXPECT_EQ(
      file_error("[strategy]\nK = true\n"),
      "run.toml:2:5: strategy.K must be a number, a list of numbers or a word without blanks, "
      "not a boolean");
}

TEST_F(SettingsTest, ABooleanStandsForYesAndNo) {
  Settings settings;
  settings.apply_file(write("[train]\nflip = true\n"));
  EXPECT_TRUE(settings.compress.train.flip);
  settings.apply_assignment("train.flip=false");
  EXPECT_FALSE(settings.compress.train.flip);
  EXPECT_NE(file_error("[train]\nloss = true\n").find("not a boolean"), std::string::npos);
}

TEST_F(SettingsTest, EveryKeyIsReadFromAFile) {
  Settings settings;
  settings.apply_file(write(R"(
schema = 1
[gnet]
tile_weights = 400
hidden = [16, 8]
row_code = "gray"
col_code = "one_hot"
min_elements = 7
[optim]
lr = 0.5
beta2 = 0.125
weight_decay = 2
plain_lr = 0.75
plain_weight_decay = 0.5
plain_optimizer = "sgd"
plain_momentum = 0.7
plain_beta2 = 0.6
schedule = "epoch_cosine"
schedule_epochs = 85
schedule_factor = 0.01
[train]
loss = "distill"
epochs = 3
batch = 17
seed = 23
threads = 2
device = "cuda:1"
[artifact]
coding = "fp16"
[target]
max_bytes = 5000
[data]
mean = [0.5, 1]
std = 0.25
context = 64
[[layer]]
match = "a.*"
type = "plain"
[[layer]]
match = "b"
tile_weights = 9
ratio = 2.5
hidden = 4
row_code = "gray"
col_code = "gray"
)"));
  const auto& options = settings.compress;
  const auto& bottleneck = options.bottleneck;
  EXPECT_EQ(bottleneck.gnet.tile_weights, 400);
  EXPECT_EQ(bottleneck.gnet.hidden, (std::vector<std::int64_t>{16, 8}));
  EXPECT_TRUE(options.hidden_given);
  EXPECT_EQ(bottleneck.gnet.row_code, Encoding::kGray);
  EXPECT_EQ(bottleneck.gnet.col_code, Encoding::kOneHot);
  EXPECT_EQ(bottleneck.min_elements, 7);
  EXPECT_EQ(bottleneck.gnet_optimizer.lr, 0.5);
  EXPECT_EQ(bottleneck.gnet_optimizer.beta2, 0.125);
  EXPECT_EQ(bottleneck.gnet_optimizer.weight_decay, 2);
  EXPECT_EQ(bottleneck.plain_optimizer.lr, 0.75);
  EXPECT_EQ(bottleneck.plain_optimizer.weight_decay, 0.5);
  EXPECT_EQ(options.bottleneck.plain_optimizer.optimizer, OptimizerRule::kSgd);
  EXPECT_EQ(options.bottleneck.plain_optimizer.momentum, 0.7);
  EXPECT_EQ(options.bottleneck.plain_optimizer.beta2, 0.6);
  EXPECT_EQ(settings.device, "cuda:1");
  EXPECT_EQ(options.train.schedule, Schedule::kEpochCosine);
  EXPECT_EQ(options.train.schedule_epochs, 85);
  EXPECT_EQ(options.train.schedule_factor, 0.01);
  EXPECT_EQ(options.train.loss, Loss::kDistill);
  EXPECT_EQ(options.train.epochs, 3);
  EXPECT_EQ(options.train.batch, 17);
  EXPECT_EQ(options.train.seed, 23u);
  EXPECT_EQ(bottleneck.seed, 23u);
  EXPECT_EQ(settings.threads, 2);
  EXPECT_EQ(options.bottleneck.coding, Coding::kF16);
  EXPECT_EQ(options.target.max_bytes, 5000);
  EXPECT_EQ(settings.data.mean, (std::vector<double>{0.5, 1}));
  EXPECT_EQ(settings.data.std, (std::vector<double>{0.25}));
  EXPECT_EQ(settings.data.context, 64);
  ASSERT_EQ(bottleneck.layers.size(), 2u);
  EXPECT_EQ(bottleneck.layers[0].match, "a.*");
  EXPECT_EQ(bottleneck.layers[0].type, "plain");
  EXPECT_EQ(bottleneck.layers[0].ratio, std::nullopt);
  EXPECT_EQ(bottleneck.layers[1].tile_weights, 9);
  EXPECT_EQ(bottleneck.layers[1].ratio, 2.5);
  EXPECT_EQ(bottleneck.layers[1].hidden, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(bottleneck.layers[1].col_code, Encoding::kGray);
}

TEST_F(SettingsTest, ErrorsNameThePlaceAndTheNearestName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\n[gnet]\n  hiden = 3\n",
       "run.toml:3:3: unknown key gnet.hiden; did you mean gnet.hidden?"},
      {"[gnets]\n", "run.toml:1:2: unknown key gnets; did you mean gnet?"},
      {"gnet = 3\n", "run.toml:1:8: gnet must be a table, not 3"},
      {"schema = 2\n",
       "run.toml:1:10: schema must be 1, not 2; this file may be written for a newer gbcompress"},
      {"[train]\nseed = -1\n", "run.toml:2:8: train.seed must be an integer of at least 0, not -1"},
      {"[train]\nepochs = 1.5\n",
       "run.toml:2:10: train.epochs must be an integer from 0 to 1000000, not 1.5"},
      {"[train]\nloss = 'taks'\n",
       "run.toml:2:8: train.loss must be one of task, distill, weights, not \"taks\"; did you mean "
       "task?"},
      {"[gnet]\nhidden = [4, 0]\n",
       "run.toml:2:10: gnet.hidden must be 1 to 8 integers from 1 to 65536, not [4, 0]"},
      {"[optim]\nlr = nan\n", "run.toml:2:6: optim.lr must be a number of at least 0, not nan"},
      {"[optim]\nlr = true\n",
       "run.toml:2:6: optim.lr must be a number of at least 0, not a boolean"},
      {"[target]\nratio = 0\n",
       "run.toml:2:9: target.ratio must be a number above 1, such as 8, 8x or 8:1, not 0"},
      {"[target]\nratio = 2\nmax_bytes = 3\n",
       "run.toml:3:1: target.max_bytes contradicts target.ratio; give one target"},
      {"layer = 3\n", "run.toml:1:1: layer must be written as [[layer]] tables"},
      {"[[layer]]\nmatch = 'a'\n[[layer]]\ntype = 'plain'\n",
       "run.toml:3:1: layer.match is missing"},
      {"[[layer]]\nmath = 'a'\n", "run.toml:2:1: unknown key layer.math; did you mean match?"},
      {"[train]\n\"a\\u001b[31m\" = 1\n", "run.toml:2:1: unknown key train.a\\x1b[31m"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(file_error(text), message);
}

TEST_F(SettingsTest, BoundsTheFile) {
  EXPECT_NE(file_error(std::string((1 << 20) + 1, '#')).find("1048577 bytes"), std::string::npos);
  EXPECT_EQ(file_error(std::string(1 << 20, '#')), "no error");
  EXPECT_EQ(file_error("a = " + std::string(200'000, '[')),
            "run.toml:1: nested deeper than 32 levels");
  Settings settings;
  try {
    settings.apply_file(folder_ / "none.toml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kNotFound);
  }
}

TEST_F(SettingsTest, AssignmentsTakeBareWordsAndLists) {
  Settings settings;
  settings.apply_assignment("train.loss=weights");
  settings.apply_assignment("train.loss = \"distill\"");
  EXPECT_EQ(settings.compress.train.loss, Loss::kDistill);
  settings.apply_assignment("gnet.hidden=32,16");
  EXPECT_EQ(settings.compress.bottleneck.gnet.hidden, (std::vector<std::int64_t>{32, 16}));
  settings.apply_assignment("gnet.hidden=[8]");
  EXPECT_EQ(settings.compress.bottleneck.gnet.hidden, (std::vector<std::int64_t>{8}));
  settings.apply_assignment("data.mean=");
  EXPECT_TRUE(settings.data.mean.empty());
  const auto error = [&](const char* text) {
    return error_of([&] { settings.apply_assignment(text); });
  };
  EXPECT_EQ(error("gnet.hiden=8"), "`set`: unknown key gnet.hiden; did you mean gnet.hidden?");
  EXPECT_EQ(error("gnet.hidden"), "`set`: gnet.hidden is not KEY=VALUE");
  EXPECT_EQ(error("=3"), "`set`: =3 is not KEY=VALUE");
  EXPECT_EQ(error("train.epochs=many").substr(0, 24), "`set`: train.epochs must");
  EXPECT_EQ(error("train.epochs=1\nseed=2").substr(0, 6), "`set`:");
  EXPECT_EQ(error_of([&] { settings.apply("target.ratio", "-5", "--ratio"); }),
            "--ratio must be a number above 1, such as 8, 8x or 8:1, not -5");
}

TEST_F(SettingsTest, ATargetReplacesOneOfALowerLevel) {
  Settings settings;
  settings.apply_file(write("[target]\nratio = 5\n"));
  settings.apply("target.max_drop", "2", "--max-drop");
  EXPECT_EQ(settings.compress.target.ratio, std::nullopt);
  EXPECT_EQ(settings.compress.target.max_drop, 2);
  settings.apply("target.max_bytes", "9", "--max-bytes");
  EXPECT_EQ(settings.compress.target.max_drop, std::nullopt);
  EXPECT_EQ(settings.compress.target.max_bytes, 9);
  EXPECT_THROW(settings.apply("target.ratio", "0", "--ratio"), Error);
  EXPECT_EQ(settings.compress.target.max_bytes, 9);
}

TEST_F(SettingsTest, EnvironmentHasANameForEveryKey) {
  EXPECT_EQ(environment_name("gnet.tile_weights"), "GBCOMPRESS_GNET_TILE_WEIGHTS");
  ::setenv("GBCOMPRESS_GNET_HIDDEN", "8", 1);
  ::setenv("GBCOMPRESS_TRAIN_LOSS", "weights", 1);
  ::setenv("GBCOMPRESS_PLUGIN_PATH", "/nowhere", 1);
  Settings settings;
  settings.apply_environment();
  EXPECT_EQ(settings.compress.bottleneck.gnet.hidden, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(settings.compress.train.loss, Loss::kWeights);
  ::setenv("GBCOMPRESS_TRAIN_LOSS", "x", 1);
  EXPECT_EQ(error_of([&] { settings.apply_environment(); }),
            "GBCOMPRESS_TRAIN_LOSS: train.loss must be one of task, distill, weights, not \"x\"");
  ::unsetenv("GBCOMPRESS_TRAIN_LOSS");
  ::setenv("GBCOMPRESS_GNET_HIDEN", "8", 1);
  EXPECT_EQ(error_of([&] { settings.apply_environment(); }),
            "GBCOMPRESS_GNET_HIDEN: no such setting; did you mean GBCOMPRESS_GNET_HIDDEN?");
  ::unsetenv("GBCOMPRESS_GNET_HIDEN");
  ::setenv("GBCOMPRESS_FIT_STEPS", "7", 1);
  settings.apply_environment();
  EXPECT_EQ(settings.compress.train.fit_steps, 7);
  ::setenv("GBCOMPRESS_FIT_STEPS", "-1", 1);
  EXPECT_EQ(error_of([&] { settings.apply_environment(); }),
            "GBCOMPRESS_FIT_STEPS: must be an integer from 0 to 1000000000, not -1");
  ::unsetenv("GBCOMPRESS_FIT_STEPS");
  ::setenv("GBCOMPRESS_TRAIN_XYZ", "8", 1);
  EXPECT_EQ(error_of([&] { settings.apply_environment(); }),
            "GBCOMPRESS_TRAIN_XYZ: no such setting");
  ::unsetenv("GBCOMPRESS_TRAIN_XYZ");
  for (const char* name :
       {"GBCOMPRESS_GNET_HIDEN", "GBCOMPRESS_GNET_HIDDEN", "GBCOMPRESS_PLUGIN_PATH"})
    ::unsetenv(name);
}

TEST_F(SettingsTest, JsonHoldsEveryKeyAndReadsBackAsTheSameSettings) {
  Settings settings;
  settings.apply_file(
      write("[optim]\nlr = 0.1\n[gnet]\nhidden = [4]\n[target]\nmax_drop = 1\n"
            "[[layer]]\nmatch = 'a'\nratio = 3\n"));
  const auto json = nlohmann::json::parse(settings.to_json());
  EXPECT_EQ(settings.to_json(), Settings(settings).to_json());
  EXPECT_EQ(json["layer"], nlohmann::json::parse(R"([{"match": "a", "ratio": 3}])"));
  Settings again;
  for (const auto& info : setting_table()) {
    const auto dot = info.key.find('.');
    const auto section = info.key.substr(0, dot), name = info.key.substr(dot + 1);
    // How a run is carried out is not part of what comes out of it.
    const bool run_only = section == "ranks" || section == "checkpoint" ||
                          info.key == "train.threads" || info.key == "train.device" ||
                          info.key == "train.measure_epochs";
    ASSERT_EQ(json.contains(section) && json[section].contains(name), !run_only) << info.key;
    if (run_only) continue;
    const auto& value = json[section][name];
    if (!value.is_null()) again.apply(info.key, value.dump(), "json");
  }
  again.compress.bottleneck.layers = settings.compress.bottleneck.layers;
  EXPECT_EQ(again.to_json(), settings.to_json());
}

TEST_F(SettingsTest, AFileRemembersWhatDiffersFromTheDefaults) {
  Settings settings;
  EXPECT_EQ(settings.changes_json(), R"({"version":")" GBC_VERSION_STRING R"("})");
  settings.apply_assignment("optim.lr=0.5");
  settings.apply_assignment("optim.beta2=0.95");  // the default
  settings.apply_assignment("ranks.placement=owner");
  const auto json = nlohmann::json::parse(settings.changes_json());
  EXPECT_EQ(json, nlohmann::json::parse(R"({"version": ")" GBC_VERSION_STRING
                                        R"(", "optim": {"lr": 0.5}})"));
}

TEST_F(SettingsTest, DefaultsOfTheTableAreTheDefaultsInForce) {
  const Settings untouched;
  Settings applied;
  for (const auto& info : setting_table()) {
    EXPECT_FALSE(info.help.empty()) << info.key;
    if (!info.default_value.empty()) applied.apply(info.key, info.default_value, "default");
  }
  EXPECT_EQ(applied.to_json(), untouched.to_json());
  EXPECT_EQ(untouched.compress.bottleneck.gnet_optimizer.lr, 1e-2);
  EXPECT_EQ(untouched.compress.bottleneck.plain_optimizer.lr, 1e-3);
}

TEST(UnusedSettings, EveryKeyHasAUse) {
  for (const SettingInfo& info : setting_table()) {
    Settings settings;
    settings.given[info.key] = "run.toml:1:1";
    EXPECT_NO_THROW(unused_settings(settings, SettingsUse{}))
        << info.key << ": add it to config/setting_uses.cpp";
  }
}

TEST(UnusedSettings, AreNamedWithTheReasonInOneLine) {
  Settings settings;
  settings.apply("train.epochs", "3", "--epochs");
  settings.apply("target.ratio", "8x", "--ratio");
  EXPECT_EQ(settings.compress.target.ratio, 8);
  EXPECT_EQ(unused_settings(settings, {.data = true}), "");
  EXPECT_EQ(unused_settings(settings, SettingsUse{}),
            "warning: --epochs has no effect: there are no data to train on (`data`)");
  settings.apply("train.minutes", "3", "--minutes");
  EXPECT_EQ(
      unused_settings(settings, SettingsUse{}),
      "warning: --epochs and --minutes have no effect: there are no data to train on (`data`)");
  EXPECT_EQ(unused_settings(settings, {"target."}, "eval"),
            "warning: --epochs and --minutes have no effect on eval");
}

}  // namespace
}  // namespace gbcompress
