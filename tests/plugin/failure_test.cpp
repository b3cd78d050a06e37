/// A plugin that fails after it was loaded is named, with its layer type and the tensor.
#include <ATen/core/grad_mode.h>
#include <torch/types.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>

#include "plugin/door.h"

namespace gbcompress {
namespace {

/// The layer type of faulty.so on the tensor "enc.0.weight" [6, 4].
class PluginFailure : public testing::Test {
 protected:
  void SetUp() override { host_.load(test::bad("faulty")); }
  void TearDown() override { ::unsetenv("GBC_TEST_FAULT"); }

  const GNetType& type() const { return *host_.registry().find_by_id("faulty"); }

  GNetSpec spec() const {
    ParameterInfo parameter;
    parameter.name = "enc.0.weight";
    parameter.local_name = "weight";
    parameter.shape = {6, 4};
    parameter.std = 0.1;
    return type().spec(parameter, {}).value();
  }
  static at::Tensor tiles_of(const GNetSpec& spec) {
    const TileGrid grid = spec.grid();
    at::Tensor tiles =
        torch::full({grid.tiles(), grid.tile_rows(), grid.tile_cols(), grid.kernel()}, 0.25f);
    return tiles.set_requires_grad(true);
  }
  at::Tensor build(const GNetSpec& spec, const at::Tensor& tiles) const {
    return type().build(spec, tiles, {6, 4}, "enc.0.weight");
  }
  at::Tensor built(const at::Tensor& tiles) const { return build(spec(), tiles); }
  at::Tensor built() const { return built(tiles_of(spec())); }

  template <typename Act>
  static std::string message(const std::string& fault, Errc code, const Act& act) {
    ::setenv("GBC_TEST_FAULT", fault.c_str(), 1);
    try {
      act();
      ADD_FAILURE() << fault << " was not noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    } catch (...) {
      ADD_FAILURE() << fault << ": not an Error";
    }
    return "";
  }
  /// In one line, and named.
  static void expect_named(const std::string& message, const std::string& part) {
    test::expect_has(message,
                     {"plugin /", "faulty.so, layer type faulty, tensor enc.0.weight: ", part});
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(message.find("learning rate"), std::string::npos) << message;
  }

  PluginHost host_;
};

TEST_F(PluginFailure, WorksWithoutAFault) {
  const at::Tensor tiles = tiles_of(spec());
  const at::Tensor weights = built(tiles);
  EXPECT_EQ(weights.sizes().vec(), (std::vector<std::int64_t>{6, 4}));
  const at::Tensor gradient = torch::rand({6, 4});
  EXPECT_NEAR(type().build_gradient(weights, tiles, gradient, "x").sum().item<float>(),
              gradient.sum().item<float>(), 1e-4);
}

TEST_F(PluginFailure, ThrowsAreNamed) {
  const std::map<std::string, std::string> reasons = {
      {"throw", "threw \"no table for\""},
      {"throw_torch", "threw \"no kernel in LibTorch\""},
      {"throw_error", "threw \"no key\""},
      {"throw_int", "threw something that is not a std::exception"}};
  for (const auto& [how, reason] : reasons) {
    expect_named(message("init_" + how, Errc::kPluginFailed, [&] { spec(); }), ": init " + reason);
    ::unsetenv("GBC_TEST_FAULT");
    const at::Tensor tiles = tiles_of(spec());
    expect_named(message("build_" + how, Errc::kPluginFailed, [&] { built(tiles); }),
                 ": build " + reason);
  }
}

TEST_F(PluginFailure, ErrorsAboutOptionsStayTheUsers) {
  EXPECT_EQ(message("init_usage", Errc::kUsage, [&] { spec(); }), "hidden must be even for faulty");
}

TEST_F(PluginFailure, SpecsThatCannotBeUsed) {
  for (const auto& [how, part] : std::map<std::string, std::string>{
           {"spec_sides", "init returned a specification that cannot be used: "},
           {"spec_hidden", "init returned a specification that cannot be used: "}})
    expect_named(message(how, Errc::kPluginFailed, [&] { spec(); }), part);
}

TEST_F(PluginFailure, ResultsThatCannotBeUsed) {
  const std::map<std::string, std::string> parts = {
      {"nan", "build returned NaN or infinity, and its tiles are finite, at most 0.25"},
      {"undefined", "build returned an undefined tensor"},
      {"turned", "build returned shape [4, 6], the parameter has shape [6, 4]"},
      {"double", "build returned a tensor of type CPUDoubleType"},
      {"integers", "build returned a tensor of type CPUIntType"},
      {"constant", "no gradient reaches the g-nets"},
      {"changes", "build changed its tiles"}};
  for (const auto& [how, part] : parts) {
    const std::string text = message(how, Errc::kPluginFailed, [&] { built(); });
    expect_named(text, part);
    test::expect_has(text, {"this is a defect of the plugin"});
  }
  const at::NoGradGuard no_grad;  // as files are expanded
  expect_named(message("nan", Errc::kPluginFailed, [&] { built(); }), "build returned NaN");
  expect_named(message("changes", Errc::kPluginFailed, [&] { built(); }), "changed its tiles");
}

TEST_F(PluginFailure, TilesThatDivergedAreNotThePluginsFault) {
  const at::Tensor tiles = tiles_of(spec());
  const at::Tensor diverged = torch::full_like(tiles, std::nanf("")).set_requires_grad(true);
  EXPECT_TRUE(built(diverged).isnan().all().item<bool>());
  const at::Tensor huge = torch::full_like(tiles, 3e38f).set_requires_grad(true);
  EXPECT_TRUE(built(huge).isfinite().all().item<bool>()) << "their sum overflows";
}

TEST_F(PluginFailure, GradientsThatAreNotFinite) {
  ::setenv("GBC_TEST_FAULT", "nan_gradient", 1);
  const at::Tensor tiles = tiles_of(spec());
  const at::Tensor weights = built(tiles);
  EXPECT_TRUE(weights.isfinite().all().item<bool>());
  const at::Tensor gradient = torch::ones({6, 4});
  const auto act = [&](const at::Tensor& from) {
    return type().build_gradient(weights, tiles, from, "enc.0.weight");
  };
  expect_named(message("nan_gradient", Errc::kPluginFailed, [&] { act(gradient); }),
               "the gradient of build is NaN or infinite");
  EXPECT_FALSE(act(gradient * std::nanf("")).isfinite().all().item<bool>())
      << "a loss that diverged is reported by the training";
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class PluginFailureDeathTest : public PluginFailure {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer handles the signal";
    PluginFailure::SetUp();
  }
};

TEST_F(PluginFailureDeathTest, ACrashIsNamedBeforeTheProcessEnds) {
  const GNetSpec good = spec();
  const at::Tensor tiles = tiles_of(good);
  const std::string who =
      "gbcompress: plugin /.*faulty.so, layer type faulty, tensor enc.0.weight: ";
  const auto dies = [&](const std::string& fault, const auto& how, const std::string& part) {
    ::setenv("GBC_TEST_FAULT", fault.c_str(), 1);
    const std::string text = who + part;
    if (fault.starts_with("init"))
      EXPECT_EXIT(spec(), how, text);
    else
      EXPECT_EXIT(build(good, tiles), how, text);
  };
  dies("build_segv", testing::KilledBySignal(SIGSEGV), "build ended the process with SIGSEGV");
  dies("build_abort", testing::KilledBySignal(SIGABRT), "build ended the process with SIGABRT");
  dies("init_segv", testing::KilledBySignal(SIGSEGV), "init ended the process with SIGSEGV");
  dies("init_recursion", testing::KilledBySignal(SIGSEGV), "init ended the process with SIGSEGV");
  dies("build_exit", testing::ExitedWithCode(1), "build ended the process with exit\\(\\)");
}

TEST_F(PluginFailureDeathTest, ACrashElsewhereIsNotThePlugins) {
  built();
  EXPECT_EXIT(::raise(SIGSEGV), testing::KilledBySignal(SIGSEGV), "^$");
  EXPECT_EXIT(std::abort(), testing::KilledBySignal(SIGABRT), "^$");
}

void crash_under_a_handler_of_the_program() {
  std::signal(SIGSEGV, [](int) { ::_exit(42); });
  PluginHost host;
  host.load(test::bad("faulty"));
  ::setenv("GBC_TEST_FAULT", "init_segv", 1);
  ParameterInfo parameter;
  parameter.local_name = "weight";
  parameter.shape = {4, 4};
  host.registry().find_by_id("faulty")->spec(parameter, {});
}

TEST(PluginHandlersDeathTest, ThoseOfTheProgramAreCalledAfterwards) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer handles the signal";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process in which no plugin was called yet
  EXPECT_EXIT(crash_under_a_handler_of_the_program(), testing::ExitedWithCode(42),
              "layer type faulty: init ended the process with SIGSEGV");
}

}  // namespace
}  // namespace gbcompress
