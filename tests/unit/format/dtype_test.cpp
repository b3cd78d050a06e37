#include "gbcompress/tensors.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace gbcompress {
namespace {

// Names and sizes as the format's own documentation lists them.
const std::map<std::string, int> kBits{
    {"BOOL", 8},        {"U8", 8},          {"I8", 8},      {"U16", 16},    {"I16", 16},
    {"U32", 32},        {"I32", 32},        {"U64", 64},    {"I64", 64},    {"F16", 16},
    {"BF16", 16},       {"F32", 32},        {"F64", 64},    {"C64", 64},    {"F8_E5M2", 8},
    {"F8_E4M3", 8},     {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
    {"F8_E4M3FNUZ", 8}, {"F4", 4}};

TEST(DType, NamesAndBitsOfAll22) {
  std::map<std::string, int> found;
  for (int i = 0; i <= static_cast<int>(DType::kF4); ++i) {
    const auto dtype = static_cast<DType>(i);
    found.emplace(dtype_name(dtype), dtype_bits(dtype));
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(found, kBits);
}

TEST(DType, ValuesCarryTheirOwnNames) {
  EXPECT_EQ(dtype_name(DType::kBool), "BOOL");
  EXPECT_EQ(dtype_name(DType::kF32), "F32");
  EXPECT_EQ(dtype_name(DType::kF8E4M3FNUZ), "F8_E4M3FNUZ");
  EXPECT_EQ(dtype_name(DType::kF6E3M2), "F6_E3M2");
}

TEST(DType, UnknownNames) {
  for (const char* name : {"", "f32", "F3", "F323", "C128", "F32 "})
    EXPECT_FALSE(parse_dtype(name).has_value()) << name;
}

TEST(DType, FourAreReal) {
  int real = 0;
  for (int i = 0; i <= static_cast<int>(DType::kF4); ++i) real += is_real(static_cast<DType>(i));
  EXPECT_EQ(real, 4);
  EXPECT_TRUE(is_real(DType::kF16) && is_real(DType::kBF16) && is_real(DType::kF32) &&
              is_real(DType::kF64));
}

}  // namespace
}  // namespace gbcompress
