// Linked into tests with LibTorch: a test draws the same random numbers whichever tests ran before
// it in the process.
#include <ATen/Context.h>
#include <c10/core/GeneratorImpl.h>
#include <gtest/gtest.h>

namespace gbcompress {
namespace {

class FreshSeed final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    at::manual_seed(c10::default_rng_seed_val);
  }
};

[[maybe_unused]] const bool listens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new FreshSeed);  // which owns it
  return true;
}();

}  // namespace
}  // namespace gbcompress
