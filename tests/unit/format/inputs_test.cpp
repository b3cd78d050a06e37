/// Files that PyTorch itself wrote: tests/golden/inputs, made by make_inputs.py there.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "format/file_kind.h"
#include "format/torch/exported_program.h"
#include "format/torch/state_dict.h"
#include "support/files.h"

namespace gbcompress {
namespace {

const std::string kFolder = GBC_SOURCE_DIR "/tests/golden/inputs/";
const std::set<std::string> kRefused = {"gan.pt", "module.pt", "optimizer.pt", "quantised.pt"};

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(byte));
    text += two;
  }
  return text;
}

nlohmann::json expected() {
  return nlohmann::json::parse(testing::get_file(kFolder + "expected.json"));
}

std::string torch_name(DType dtype) {
  static const std::map<DType, std::string> kNames = {
      {DType::kBool, "bool"},         {DType::kU8, "uint8"},
      {DType::kI8, "int8"},           {DType::kI16, "int16"},
      {DType::kI32, "int32"},         {DType::kI64, "int64"},
      {DType::kU16, "uint16"},        {DType::kU32, "uint32"},
      {DType::kU64, "uint64"},        {DType::kF16, "float16"},
      {DType::kBF16, "bfloat16"},     {DType::kF32, "float32"},
      {DType::kF64, "float64"},       {DType::kF8E4M3, "float8_e4m3fn"},
      {DType::kF8E5M2, "float8_e5m2"}};
  return kNames.at(dtype);
}

TEST(Inputs, HoldTheTensorsThatPyTorchSaved) {
  std::size_t files = 0;
  const nlohmann::json all = expected();
  for (const auto& [file, tensors] : all.items()) {
    if (kRefused.contains(file)) continue;
    SCOPED_TRACE(file);
    ++files;
    const TensorBundle bundle = open_tensors(kFolder + file);
    EXPECT_EQ(bundle.tensors.size(), tensors.size());
    for (const TensorEntry& entry : bundle.tensors) {
      ASSERT_TRUE(tensors.contains(entry.name)) << entry.name;
      const auto& wanted = tensors[entry.name];
      EXPECT_EQ(torch_name(entry.dtype), wanted[0]) << entry.name;
      EXPECT_EQ(nlohmann::json(entry.shape), wanted[1]) << entry.name;
      EXPECT_EQ(hex(entry.bytes), wanted[2]) << entry.name;
    }
  }
  EXPECT_EQ(files, 10u);
}

TEST(Inputs, TiedTensorsShareTheirBytes) {
  for (const char* file :
       {"zip.pt", "old.pth", "checkpoint.pth.tar", "exported.pt2", "parallel.pt"}) {
    const TensorBundle bundle = open_tensors(kFolder + file);
    EXPECT_EQ(bundle.find("tied.weight")->bytes.data(), bundle.find("fc.weight")->bytes.data())
        << file;
  }
}

TEST(Inputs, SayWhatIsLeftOut) {
  EXPECT_EQ(open_tensors(kFolder + "checkpoint.pth.tar").notes,
            std::vector<std::string>{
                "left out: optimizer (15 tensors, 212 B), loss (1 tensor, 4 B), epoch, scheduler"});
  EXPECT_EQ(open_tensors(kFolder + "parallel.pt").notes,
            std::vector<std::string>{"all names begin with \"module.\", which is taken off"});
  const auto lightning = open_tensors(kFolder + "lightning.ckpt");
  EXPECT_EQ(lightning.left_out.front(), "optimizer_states");
  EXPECT_EQ(lightning.left_out.size(), 9u);
  EXPECT_EQ(
      open_tensors(kFolder + "exported.pt2").notes,
      std::vector<std::string>{"left out: the program, the program's constants (1 tensor, 12 B)"});
}

TEST(Inputs, EverythingIsKeptOnDemand) {
  const auto bundle = open_tensors(kFolder + "checkpoint.pth.tar", {.keep_all = true});
  EXPECT_NE(bundle.find("optimizer.state.0.exp_avg"), nullptr);
  EXPECT_NE(bundle.find("model.fc.weight"), nullptr);
  EXPECT_EQ(hex(bundle.find("epoch")->bytes), "0300000000000000");
  EXPECT_TRUE(bundle.find("optimizer.state.0.exp_avg")->exact);
  EXPECT_TRUE(bundle.find("loss")->exact);
  EXPECT_FALSE(bundle.find("model.fc.weight")->exact);
  EXPECT_EQ(bundle.find("optimizer.param_groups.0.betas")->shape, std::vector<std::int64_t>{2});
}

TEST(Inputs, APickledModuleHasTheNamesOfItsStateDict) {
  const auto module = open_tensors(kFolder + "module.pt");
  const auto part = open_tensors(kFolder + "gan.pt", {.part = "generator"});
  ASSERT_EQ(module.tensors.size(), part.tensors.size());
  for (std::size_t i = 0; i < part.tensors.size(); ++i)
    EXPECT_EQ(module.tensors[i].name, part.tensors[i].name);
}

TEST(Inputs, RefusedOnesSayWhy) {
  GBC_EXPECT_ERROR(open_tensors(kFolder + "gan.pt"), Errc::kUsage, "generator and discriminator");
  EXPECT_EQ(open_tensors(kFolder + "gan.pt", {.part = "generator"}).tensors.size(), 9u);
  GBC_EXPECT_ERROR(open_tensors(kFolder + "optimizer.pt"), Errc::kUnsupported, "holds no model");
  GBC_EXPECT_ERROR(open_tensors(kFolder + "quantised.pt"), Errc::kUnsupported,
                   "a quantized tensor");
}

/// Opens bytes as open_tensors() would a file.
std::size_t open_bytes(const std::string& content) {
  const testing::Bytes bytes = testing::to_bytes(content);
  return sniff_bytes(bytes, "x") == FileKind::kExported
             ? read_exported_program(bytes, "x").tensors.size()
             : read_state_dict(bytes, "x").tensors.size();
}

TEST(Inputs, EveryTruncationIsRefused) {
  const nlohmann::json all = expected();
  for (const auto& [file, tensors] : all.items()) {
    const std::string whole = testing::get_file(kFolder + file);
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_THROW(open_bytes(whole.substr(0, size)), Error) << file << " " << size;
  }
}

TEST(Inputs, NoFlippedBitCrashes) {
  const nlohmann::json all = expected();
  for (const auto& [file, tensors] : all.items()) {
    const std::string whole = testing::get_file(kFolder + file);
    // Every bit of the files is too much for sanitizers; a prime stride meets all positions' kinds.
    for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 5) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      try {
        EXPECT_GT(open_bytes(damaged), 0u);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace gbcompress
