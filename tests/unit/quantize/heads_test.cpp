/// Tables that give the scores of a vocabulary.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "format/language_model.h"
#include "gbcompress/weights.h"
#include "support/decoded.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::normals;
using testing::put_file;
using testing::TempDir;

constexpr std::int64_t kVocabulary = 6000, kWidth = 64;

/// Sixteen blocks and a table. @param table  "": none
MadeTensors model(const std::string& table) {
  MadeTensors made;
  for (int i = 0; i < 16; ++i)
    made.add("block." + std::to_string(10 + i), {kWidth, kWidth},
             normals(kWidth * kWidth, static_cast<std::uint64_t>(i)));
  if (!table.empty()) made.add(table, {kVocabulary, kWidth}, normals(kVocabulary * kWidth, 99));
  return made;
}

/// Relative error of the table over that of a block's matrix, in a file of four bits a weight.
double table_over_block(const TensorBundle& bundle) {
  const TempDir folder;
  const WeightsReport report =
      compress_weights(bundle, folder / "m.gbz", {.max_bytes = 230'000, .overwrite = true});
  double table = 0, block = 0;
  for (const StoredTensor& tensor : report.tensors) {
    if (tensor.name == "table") table = tensor.error;
    if (tensor.name == "block.10") block = tensor.error;
  }
  return table / block;
}

TEST(Heads, ATableOfScoresHasFinerSteps) {
  MadeTensors made = model("table");
  const double looked_up = table_over_block(made.sorted());
  EXPECT_GT(looked_up, 40);  // as numbers are: 94
  const TempDir dir;
  made.bundle.files = {dir / "model.safetensors"};
  put_file(dir / "config.json", R"({"architectures": ["BertModel"], "vocab_size": 6000})");
  EXPECT_NEAR(table_over_block(made.bundle), looked_up, 0.01 * looked_up);
  put_file(dir / "config.json", R"({"architectures": ["GemmaForCausalLM"]})");
  const double head = table_over_block(made.bundle);
  EXPECT_LT(head, looked_up / 10);  // 1.3 * 16
  EXPECT_GT(head, looked_up / 40);
}

TEST(Heads, ATableUnderTwoNamesIsOne) {
  MadeTensors made = model("table");
  made.sorted();
  const double once = table_over_block(made.bundle);
  TensorEntry again = made.bundle.tensors.back();
  again.name = "table.again";
  made.bundle.tensors.push_back(again);
  EXPECT_LT(table_over_block(made.bundle), once / 10);
}

TEST(Heads, RowsThatComeFirstAreMoreExact) {
  const TempDir folder;
  MadeTensors made = model("table");
  const std::vector<float> given = normals(kVocabulary * kWidth, 99);
  compress_weights(made.sorted(), folder / "m.gbz", {.max_bytes = 230'000, .overwrite = true});
  const std::vector<float> stored = testing::decoded(folder / "m.gbz", "table");
  const auto error = [&](std::size_t first) {  // of 500 rows
    double sum = 0;
    for (std::size_t i = first * kWidth; i < (first + 500) * kWidth; ++i)
      sum += std::pow(static_cast<double>(given[i] - stored[i]), 2);
    return sum;
  };
  // (550 / 6050)^(0.75 / 2)
  EXPECT_NEAR(error(0) / error(5500), 0.41, 0.08);
  EXPECT_LT(error(0), error(1000));
  EXPECT_LT(error(1000), error(3000));
}

TEST(Heads, WhatPredictsTokensSaysSo) {
  TensorBundle bundle;
  EXPECT_FALSE(predicts_tokens(bundle));
  bundle.metadata["tokenizer.ggml.model"] = "llama";
  EXPECT_TRUE(predicts_tokens(bundle));
  bundle.metadata["bert.pooling_type"] = "1";
  EXPECT_FALSE(predicts_tokens(bundle));
  bundle.metadata.clear();
  const TempDir dir;
  bundle.files = {dir / "model.safetensors"};
  EXPECT_FALSE(predicts_tokens(bundle));
  for (const char* name : {"LlamaForCausalLM", "GPT2LMHeadModel", "WhisperForConditionalGeneration",
                           "BertForMaskedLM"}) {
    put_file(dir / "config.json", std::string(R"({"architectures": [")") + name + "\"]}");
    EXPECT_TRUE(predicts_tokens(bundle)) << name;
  }
  for (const char* text : {R"({"architectures": ["ViTModel"]})", R"({"x": ["GPT2LMHeadModel"]})",
                           R"({"architectures": "LM", )", "", "[[[["}) {
    put_file(dir / "config.json", text);
    EXPECT_FALSE(predicts_tokens(bundle)) << text;
  }
}

}  // namespace
}  // namespace gbcompress
