#include "format/folder/packed_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gbcompress {
namespace {

using nlohmann::json;

TEST(PackedConfig, NamesMethodAndFileAndGivesTheSameBytesBack) {
  for (const std::string config :
       {R"({"model_type": "bert"})",
        "{\n  \"architectures\": [\"A\", {\"b\": 1e-05}],\n  \"model_type\": \"llama\"\n}\n",
        R"(  {"a":{"model_type":"x","s":"\"},{"},"model_type":"b","c":[],"d":{}})",
        R"({"model_type":"","":"quantization_config","é":"\\"})"}) {
    const std::string packed = with_packed_weights(config, "model.gbz");
    const json value = json::parse(packed);
    EXPECT_EQ(value["quantization_config"], json::parse(R"({"quant_method":"gbcompress"})"));
    const auto weights = value["transformers_weights"].get<std::string>();
    EXPECT_TRUE(weights.starts_with("model.gbz (")) << weights;
    EXPECT_NE(weights.find("install its Python package"), std::string::npos) << weights;
    json rest = value;
    rest.erase("quantization_config");
    rest.erase("transformers_weights");
    EXPECT_EQ(rest, json::parse(config));
    EXPECT_EQ(without_packed_weights(packed), config);
    EXPECT_EQ(with_packed_weights(packed, "model.gbz"), packed);
    EXPECT_EQ(json::parse(with_packed_weights(packed, "b \"1\".gbz"))["transformers_weights"]
                  .get<std::string>()
                  .substr(0, 9),
              "b \"1\".gbz");
  }
}

TEST(PackedConfig, RemovesWhatOtherProgramsHaveWrittenAnew) {
  for (const auto& [packed, plain] : std::vector<std::pair<std::string, std::string>>{
           {R"({"a": 1, "quantization_config": {"quant_method": "gbcompress", "b": [1, 2]}})",
            R"({"a": 1})"},
           {R"({"a": 1, "transformers_weights": "m.gbz", "b": 2})", R"({"a": 1, "b": 2})"},
           {R"({"quantization_config": {"quant_method": "gbcompress"}})", "{}"}})
    EXPECT_EQ(without_packed_weights(packed), plain);
}

TEST(PackedConfig, LeavesOtherFilesAsTheyAre) {
  for (const std::string config :
       {R"({"_class_name": "UNet"})", R"([{"model_type": "bert"}])", R"({"model_type": "bert")",
        R"({"model_type": 1})", R"({"model_type": "a", "model_type": "b"})", ""}) {
    EXPECT_EQ(with_packed_weights(config, "model.gbz"), config);
    EXPECT_EQ(without_packed_weights(config), config);
  }
  const std::string large = R"({"model_type": "bert", "x": ")" + std::string(2 << 20, 'x') + "\"}";
  EXPECT_EQ(with_packed_weights(large, "model.gbz"), large);
}

TEST(PackedConfig, KeepsTheMethodAndTheFileOfOthers) {
  const std::string gptq =
      R"({"model_type": "llama", "quantization_config": {"quant_method": "gptq"}})";
  const json packed = json::parse(with_packed_weights(gptq, "model.gbz"));
  EXPECT_EQ(packed["quantization_config"]["quant_method"], "gptq");
  EXPECT_TRUE(packed.contains("transformers_weights"));
  EXPECT_EQ(without_packed_weights(with_packed_weights(gptq, "model.gbz")), gptq);
  const std::string named =
      R"({"model_type": "m", "transformers_weights": "consolidated.safetensors"})";
  EXPECT_EQ(json::parse(with_packed_weights(named, "c.gbz"))["transformers_weights"],
            "consolidated.safetensors");
  EXPECT_EQ(without_packed_weights(with_packed_weights(named, "c.gbz")), named);
  EXPECT_EQ(without_packed_weights(gptq), gptq);
}

}  // namespace
}  // namespace gbcompress
