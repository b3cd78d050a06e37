#include "format/gguf/types.h"

#include <algorithm>
#include <iterator>

namespace gbcompress::gguf {
namespace {

// Q8_1 is missing: writers disagree about its block, and files do not hold it.
constexpr Type kTypes[] = {
    {0, "F32", 1, 4, DType::kF32},  {1, "F16", 1, 2, DType::kF16},
    {2, "Q4_0", 32, 18, {}},        {3, "Q4_1", 32, 20, {}},
    {6, "Q5_0", 32, 22, {}},        {7, "Q5_1", 32, 24, {}},
    {kQ8_0, "Q8_0", 32, 34, {}},    {10, "Q2_K", 256, 84, {}},
    {11, "Q3_K", 256, 110, {}},     {12, "Q4_K", 256, 144, {}},
    {13, "Q5_K", 256, 176, {}},     {14, "Q6_K", 256, 210, {}},
    {15, "Q8_K", 256, 292, {}},     {16, "IQ2_XXS", 256, 66, {}},
    {17, "IQ2_XS", 256, 74, {}},    {18, "IQ3_XXS", 256, 98, {}},
    {19, "IQ1_S", 256, 50, {}},     {20, "IQ4_NL", 32, 18, {}},
    {21, "IQ3_S", 256, 110, {}},    {22, "IQ2_S", 256, 82, {}},
    {23, "IQ4_XS", 256, 136, {}},   {24, "I8", 1, 1, DType::kI8},
    {25, "I16", 1, 2, DType::kI16}, {26, "I32", 1, 4, DType::kI32},
    {27, "I64", 1, 8, DType::kI64}, {28, "F64", 1, 8, DType::kF64},
    {29, "IQ1_M", 256, 56, {}},     {30, "BF16", 1, 2, DType::kBF16},
    {34, "TQ1_0", 256, 54, {}},     {35, "TQ2_0", 256, 66, {}},
    {39, "MXFP4", 32, 17, {}},      {40, "NVFP4", 64, 36, {}},
    {41, "Q1_0", 128, 18, {}},
};

}  // namespace

const Type* find_type(std::uint32_t number) noexcept {
  const auto* at = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const Type& type) { return type.number == number; });
  return at == std::end(kTypes) ? nullptr : at;
}

std::string type_name(std::uint32_t number) {
  const Type* type = find_type(number);
  return type ? std::string(type->name) : "type " + std::to_string(number);
}

}  // namespace gbcompress::gguf
