#include "gbcompress/compress.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/types.h>
#include <unistd.h>
#include <zstd.h>

#include <cmath>
#include <fstream>
#include <regex>

#include "base/file.h"
#include "gbcompress/error.h"
#include "support/code_of.h"
#include "support/layer_types.h"
#include "sweep/controls.h"
#include "sweep/sweep_points.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;

double error_of(const std::vector<NamedParameter>& tensors, const Control& control) {
  double error = 0, squares = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    error += (control.values[i] - tensors[i].tensor).square().sum().item<double>();
    squares += tensors[i].tensor.square().sum().item<double>();
  }
  return error / squares;
}

std::vector<std::byte> unpacked(const Control& control) {
  std::vector<std::byte> raw(ZSTD_getFrameContentSize(control.bytes.data(), control.bytes.size()));
  EXPECT_EQ(ZSTD_decompress(raw.data(), raw.size(), control.bytes.data(), control.bytes.size()),
            raw.size());
  return raw;
}

class SweepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const torch::NoGradGuard no_grad;
    types_.stage("program", [](Registrar& staging) { register_builtin_models(staging); });
    torch::manual_seed(3);
    model_ = build_model("mlp:64-48-10", types_);
    folder_ = fs::temp_directory_path() / ("gbc_sweep_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    options_.folder = folder_;
    options_.compress.train.epochs = 1;
    options_.compress.train.fit_steps = 3;
  }
  void TearDown() override { fs::remove_all(folder_); }
  SweepReport run(const Data* data) {
    return sweep(*model_, kInputBytes, data, nullptr, types_, options_);
  }

  static constexpr std::int64_t kInputBytes = 14'500;
  Registry types_ = test_registry();
  std::unique_ptr<Model> model_;
  SweepOptions options_;
  fs::path folder_;
  Data data_ = open_data("digits");
};

TEST_F(SweepTest, RoundedNumbersAreWhatTheBytesHold) {
  const auto& tensors = model_->tensors();
  double before = 1;
  for (const int bits : {2, 4, 8}) {
    const Control control = rounded_control(tensors, bits);
    const std::vector<std::byte> raw = unpacked(control);
    // By hand: of a matrix a float32 scale and one byte a number, of a vector its float32 values.
    std::size_t at = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor expected = control.values[i].flatten();
      const bool matrix = tensors[i].info.shape.size() == 2;
      float scale = 0;
      std::memcpy(&scale, raw.data() + at, 4);
      if (matrix) at += 4;
      for (std::int64_t j = 0; j < expected.numel(); ++j) {
        float value = 0;
        if (matrix) {
          const int number = static_cast<signed char>(raw[at]);
          EXPECT_LT(std::abs(number), 1 << (bits - 1));
          value = static_cast<float>(number) * scale;
          at += 1;
        } else {
          std::memcpy(&value, raw.data() + at, 4);
          at += 4;
        }
        ASSERT_EQ(value, expected[j].item<float>());
      }
    }
    EXPECT_EQ(at, raw.size());
    const double error = error_of(tensors, control);
    EXPECT_LT(error, before);
    before = error;
  }
  EXPECT_LT(before, 1e-4);
  EXPECT_GT(before, 0);
  EXPECT_EQ(code_of([&] { rounded_control(tensors, 1); }), Errc::kUsage);
}

TEST_F(SweepTest, FactorsLoseLessWithMoreOfThem) {
  const auto& tensors = model_->tensors();
  const FactorControl factors(tensors);
  double before = 1;
  std::int64_t raw_before = 0;
  for (const double part : {0.02, 0.2, 0.5, 1.0}) {
    const Control control = factors.control(part);
    EXPECT_EQ(static_cast<std::int64_t>(unpacked(control).size()), factors.raw_bytes(part));
    EXPECT_GT(factors.raw_bytes(part), raw_before);
    raw_before = factors.raw_bytes(part);
    const double error = error_of(tensors, control);
    EXPECT_LT(error, before);
    before = error;
  }
  EXPECT_LT(before, 1e-6) << "binary16 alone";
  // 48 rows and 64 columns: of rank 12 there are 12 (48 + 64) numbers; 10 and 48: of rank 2.
  EXPECT_EQ(factors.raw_bytes(0.25), 2 * (12 * 112 + 2 * 58) + 4 * 58);
  EXPECT_LE(factors.raw_bytes(factors.part_for(3000)), 3000);
  EXPECT_GT(factors.raw_bytes(factors.part_for(3000)), 2500);
}

TEST_F(SweepTest, AKnownRankIsExact) {
  const torch::NoGradGuard no_grad;
  at::Tensor weight = model_->tensors()[0].tensor;
  weight.copy_(torch::outer(torch::linspace(-1, 1, 48), torch::linspace(0, 1, 64)));
  const FactorControl factors(model_->tensors());
  const Control control = factors.control(1e-9);
  EXPECT_LT((control.values[0] - weight).abs().max().item<double>(), 2e-3);
}

TEST_F(SweepTest, EveryMethodHasItsPointsAndFiles) {
  options_.lambdas = {1, 0.1};
  std::vector<at::Tensor> before;
  for (const NamedParameter& p : model_->tensors()) before.push_back(p.tensor.detach().clone());
  const SweepReport report = run(&data_);
  EXPECT_EQ(report.computed, 8);
  ASSERT_EQ(report.points.size(), 8u);
  for (const SweepPoint& p : report.points) {
    ASSERT_TRUE(p.metric) << p.method;
    EXPECT_NEAR(p.ratio * static_cast<double>(p.bytes), kInputBytes, 1);
    if (p.file.empty()) continue;
    EXPECT_EQ(static_cast<std::int64_t>(fs::file_size(folder_ / p.file)), p.bytes);
    const auto fresh = build_model("mlp:64-48-10", types_);
    load_tensors(*fresh, expand(ArtifactReader::open(folder_ / p.file), types_));
    EXPECT_DOUBLE_EQ(*p.metric, evaluate(*fresh, data_.test, data_.metric));
  }
  EXPECT_LT(report.points[0].bytes, report.points[1].bytes) << "a larger lambda, a smaller file";
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(model_->tensors()[i].tensor.equal(before[i]));

  const SweepReport again = run(&data_);
  EXPECT_EQ(again.computed, 0);
  options_.lambdas.push_back(10);
  EXPECT_EQ(run(&data_).computed, 3) << "a longer list adds its points";
  fs::remove(folder_ / "lambda-1.gbz");
  EXPECT_EQ(run(&data_).computed, 1) << "a file that is gone is made again";

  options_.compress.facts["setting train.epochs"] = "7";
  EXPECT_EQ(code_of([&] { run(&data_); }), Errc::kUsage);
}

TEST_F(SweepTest, WithoutDataErrorsAreMeasured) {
  options_.compress.train.loss = Loss::kWeights;
  options_.errors = {0.1, 0.001};
  const SweepReport report = run(nullptr);
  EXPECT_FALSE(report.metric);
  EXPECT_LE(report.points[0].weight_error, 0.12);
  EXPECT_LT(report.points[1].weight_error, report.points[0].weight_error);
  EXPECT_FALSE(report.points[0].metric);
  options_.lambdas = {1};
  EXPECT_EQ(code_of([&] { run(nullptr); }), Errc::kUsage);
  options_.errors.clear();
  EXPECT_EQ(code_of([&] { run(nullptr); }), Errc::kUsage);
  options_.lambdas = {};
  EXPECT_EQ(code_of([&] { run(nullptr); }), Errc::kUsage);
}

TEST_F(SweepTest, ANewModelIsTrainedForItsControls) {
  options_.from_scratch = true;
  options_.lambdas = {0.1};
  options_.compress.train.epochs = 3;
  const SweepReport report = run(&data_);
  EXPECT_EQ(report.points[0].method, kDenseMethod);
  EXPECT_DOUBLE_EQ(report.before, *report.points[0].metric);
  EXPECT_GT(report.before, 50);
  for (const SweepPoint& p : report.points)
    if (p.setting == "8 bits") {
      EXPECT_NEAR(*p.metric, report.before, 3);
    }
  EXPECT_EQ(run(&data_).computed, 0);
}

TEST_F(SweepTest, WhatAKilledSweepWasWritingGoesWhenItGoesOn) {
  options_.compress.train.loss = Loss::kWeights;
  options_.ratios = {4};
  run(nullptr);
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  const std::string killed = ".tmp-" + std::to_string(gone) + "-0";
  for (const char* name : {"ratio-4.gbz", "gnets-ratio-4.gbz", "points.jsonl"})
    std::ofstream(folder_ / (name + killed)) << "half";
  std::ofstream(folder_ / ("mine" + killed)) << "precious";
  EXPECT_EQ(run(nullptr).computed, 0);
  for (const char* name : {"ratio-4.gbz", "gnets-ratio-4.gbz", "points.jsonl"}) {
    EXPECT_TRUE(fs::exists(folder_ / name));
    EXPECT_FALSE(fs::exists(folder_ / (name + killed))) << name;
  }
  EXPECT_TRUE(fs::exists(folder_ / ("mine" + killed))) << "no sweep writes that";
}

TEST_F(SweepTest, FoldersThatAreNotASweepsAreRefused) {
  options_.lambdas = {1};
  fs::create_directories(folder_);
  std::ofstream(folder_ / "lambda-1.gbz") << "precious";
  EXPECT_EQ(code_of([&] { run(&data_); }), Errc::kExists);
  EXPECT_EQ(read_text(folder_ / "lambda-1.gbz", 100), "precious");
  EXPECT_FALSE(fs::exists(folder_ / "points.jsonl"));
  for (const char* text : {"", "{}", "not json", "{\"facts\": 3}", "{\"facts\": {\"a\": 1}}"}) {
    std::ofstream(folder_ / "points.jsonl", std::ios::trunc) << text;
    EXPECT_EQ(code_of([&] { run(&data_); }), Errc::kCorrupt) << text;
  }
  options_.folder = folder_ / "points.jsonl" / "below";
  EXPECT_EQ(code_of([&] { run(&data_); }), Errc::kIo);
}

TEST_F(SweepTest, BytesThatNoIntegerHoldsAreRefused) {
  options_.compress.train.loss = Loss::kWeights;
  options_.ratios = {4};
  run(nullptr);
  const std::string lines = read_text(folder_ / "points.jsonl", 1 << 20);
  for (const char* number : {"1e300", "-1e300", "1.5", "\"1\""}) {
    const std::string changed = std::regex_replace(lines, std::regex("\"bytes\":[0-9]+"),
                                                   "\"bytes\":" + std::string(number));
    ASSERT_NE(changed, lines);
    std::ofstream(folder_ / "points.jsonl", std::ios::trunc) << changed;
    EXPECT_EQ(code_of([&] { run(nullptr); }), Errc::kCorrupt) << number;
  }
}

SweepReport sample() {
  SweepReport report{
      .input_bytes = 70'000, .parameters = 17'000, .metric = Metric::kAccuracy, .before = 97.5};
  report.points = {{.method = kQuantizedMethod,
                    .setting = "lambda 1",
                    .bytes = 800,
                    .ratio = 87.5,
                    .metric = 90.25,
                    .weight_error = 0.5,
                    .seconds = 3,
                    .file = "lambda-1.gbz"},
                   {.method = kQuantizedMethod,
                    .setting = "lambda 0.1",
                    .bytes = 3000,
                    .ratio = 23.3333,
                    .metric = 97,
                    .file = "lambda-0.1.gbz"},
                   {.method = kFactorMethod,
                    .setting = "as \"lambda\", 1",
                    .bytes = 1500,
                    .ratio = 46.6667,
                    .metric = 12}};
  return report;
}

TEST(SweepReportTest, CsvQuotesWhatNeedsIt) {
  EXPECT_EQ(sweep_csv(sample()),
            "method,setting,bytes,ratio,bits_per_parameter,metric,weight_error,seconds,file\r\n"
            "quantized,lambda 1,800,87.5,0.376471,90.25,0.5,3,lambda-1.gbz\r\n"
            "quantized,lambda 0.1,3000,23.3333,1.41176,97,0,0,lambda-0.1.gbz"
            "\r\n"
            "\"truncated SVD, fp16 + zstd\",\"as \"\"lambda\"\", 1\",1500,46.6667,0.705882,12,0,0,"
            "\r\n");
}

/// Of every element with that name, the numbers of an attribute.
std::vector<double> numbers(const std::string& svg, const std::string& element,
                            const std::string& attribute) {
  std::vector<double> found;
  for (std::size_t at = 0; (at = svg.find("<" + element, at)) != std::string::npos; ++at) {
    const std::size_t value = svg.find(" " + attribute + "=\"", at);
    found.push_back(std::stod(svg.substr(value + attribute.size() + 3)));
  }
  return found;
}

TEST(SweepReportTest, ThePictureHasEveryPointInItsPlace) {
  const std::string svg = sweep_svg(sample(), "a <b> & \"c\"");
  EXPECT_NE(svg.find("a &lt;b&gt; &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const std::vector<double> x = numbers(svg, "circle", "cx"), y = numbers(svg, "circle", "cy");
  ASSERT_EQ(x.size(), 3u);
  // Equal factors are equal ways; better is higher.
  EXPECT_NEAR((x[1] - x[0]) / (x[2] - x[0]), std::log(3000.0 / 800) / std::log(1500.0 / 800), 1e-3);
  EXPECT_NEAR((y[0] - y[1]) / (y[2] - y[0]), (97 - 90.25) / (90.25 - 12), 1e-3);
  EXPECT_LT(y[1], y[0]);
  EXPECT_LT(y[0], y[2]);
  for (const char* label : {kQuantizedMethod, kFactorMethod, "bytes on disk", "test accuracy"})
    EXPECT_NE(svg.find(label), std::string::npos) << label;
  EXPECT_EQ(svg.find(kGNetMethod), std::string::npos) << "no points, no line";
}

TEST(SweepReportTest, AxesHaveEnoughLabels) {
  for (const auto& [low, high] : {std::pair{9.0, 99.0}, {80.1, 80.9}, {6.0, 98.4}, {0.0, 97.0}})
    for (const auto& [small, large] :
         {std::pair{100, 900}, {100'000, 120'000}, {14'000, 190'000}}) {
      SweepReport report;
      report.metric = Metric::kAccuracy;
      report.before = high;
      report.points = {{.method = kQuantizedMethod, .bytes = small, .metric = low},
                       {.method = kQuantizedMethod, .bytes = large, .metric = high}};
      const std::string svg = sweep_svg(report, "x");
      // Numbers on the left end at the axis, those below are in its middle.
      std::size_t left = 0, below = 0;
      for (std::size_t at = 0; (at = svg.find("<text", at)) != std::string::npos; ++at) {
        const std::string text = svg.substr(at, svg.find("</text>", at) - at);
        left += text.find("anchor=\"end\"") != std::string::npos;
        below += text.ends_with(" kB") || text.ends_with(" B");
      }
      EXPECT_GE(left, 3u) << low << " " << high;
      EXPECT_LE(left, 10u);
      EXPECT_GE(below, 4u) << small << " " << large;
      EXPECT_LE(below, 12u);
    }
}

TEST(SweepReportTest, APictureOfNothingOrOfOnePointIsOne) {
  SweepReport report;
  for (int i = 0; i < 2; ++i) {
    const std::string svg = sweep_svg(report, "x");
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    report.points = {{.method = kGNetMethod, .setting = "r", .bytes = 5, .weight_error = 1}};
  }
}

}  // namespace
}  // namespace gbcompress
