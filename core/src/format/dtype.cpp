#include "gbcompress/tensors.h"

#include <iterator>

namespace gbcompress {
namespace {

struct Row {
  std::string_view name;
  int bits;
};

// In the order of DType.
constexpr Row kRows[] = {
    {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"U16", 16},    {"I16", 16},
    {"U32", 32},    {"I32", 32},        {"U64", 64},        {"I64", 64},    {"F16", 16},
    {"BF16", 16},   {"F32", 32},        {"F64", 64},        {"C64", 64},    {"F8_E5M2", 8},
    {"F8_E4M3", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6},
    {"F6_E3M2", 6}, {"F4", 4},
};
static_assert(std::size(kRows) == static_cast<std::size_t>(DType::kF4) + 1);

const Row& row(DType dtype) noexcept { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view dtype_name(DType dtype) noexcept { return row(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(kRows); ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

int dtype_bits(DType dtype) noexcept { return row(dtype).bits; }

bool is_real(DType dtype) noexcept {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32 ||
         dtype == DType::kF64;
}

}  // namespace gbcompress
