// Exact changes since a base.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/random.h"
#include "codec/delta/change.h"
#include "fuzz/target.h"
#include "gbcompress/error.h"

namespace gbcompress::fuzz {
namespace {

using codec::apply_change;
using codec::ChangeForm;
using codec::encode_change;

constexpr std::array<DType, 6> kTypes = {DType::kBF16, DType::kF32,  DType::kF8E4M3,
                                         DType::kI64,  DType::kBool, DType::kF16};
constexpr codec::ChangeGrid kGrids[] = {{1, 1}, {1, 300}, {3, 130}, {1100, 1}};

struct Case {
  DType dtype = DType::kBF16;
  codec::ChangeGrid grid;
  Bytes base;
};

constexpr unsigned kCases = kTypes.size() * std::size(kGrids);

Case make_case(unsigned number) {
  Case made{kTypes[number % kTypes.size()], kGrids[number / kTypes.size() % std::size(kGrids)], {}};
  const auto size = static_cast<std::int64_t>(dtype_bits(made.dtype)) / 8;
  made.base.resize(static_cast<std::size_t>(made.grid.rows * made.grid.cols * size));
  const RandomStream noise(number, "base");
  for (std::size_t i = 0; i < made.base.size(); ++i)
    made.base[i] = static_cast<std::byte>(noise.bits(i));
  return made;
}

/// What the first byte says the base is. Made once: noise takes longer than most inputs.
const Case& case_of(std::byte first) {
  static const std::vector<Case> cases = [] {
    std::vector<Case> made;
    for (unsigned number = 0; number < kCases; ++number) made.push_back(make_case(number));
    return made;
  }();
  return cases[std::to_integer<unsigned>(first) % kCases];
}

void run_change(Input input) {
  if (input.empty()) return;
  const Case& made = case_of(input[0]);
  Bytes now = made.base;
  apply_change(made.dtype, made.grid, input.subspan(1), now);
  Bytes again = made.base;
  apply_change(made.dtype, made.grid, encode_change(made.dtype, made.grid, made.base, now), again);
  if (again != now) throw std::logic_error("a change that was read is written differently");
}

std::vector<Bytes> change_seeds() {
  std::vector<Bytes> seeds;
  for (unsigned first = 0; first < kCases; ++first) {
    const Case& made = case_of(static_cast<std::byte>(first));
    for (const ChangeForm form : {ChangeForm::kSparse, ChangeForm::kDense})
      for (const std::size_t rarity : {2u, 50u, 1u << 20}) {
        Bytes now = made.base;
        for (std::size_t i = 0; i < now.size(); i += rarity)
          now[i] ^= static_cast<std::byte>(i % 7);
        Bytes seed = encode_change(made.dtype, made.grid, made.base, now, form);
        seed.insert(seed.begin(), static_cast<std::byte>(first));
        seeds.push_back(std::move(seed));
      }
  }
  return seeds;
}

}  // namespace

const std::vector<Target> delta_targets = {{"change", run_change, change_seeds}};

}  // namespace gbcompress::fuzz
