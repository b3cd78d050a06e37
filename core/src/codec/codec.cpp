#include "gbcompress/codec.h"

#include <cmath>

#include "codec/backend.h"
#include "codec/fast_coder.h"
#include "codec/small_coder.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kMostValues = std::int64_t{1} << 28;

void check(const IntegerGrid& grid, std::size_t values, std::span<const std::uint8_t> prior) {
  if (grid.rows < 1 || grid.cols < 1 || grid.rows > kMostValues || grid.cols > kMostValues ||
      grid.size() > kMostValues)
    throw Error(Errc::kUsage, "a grid to code has 1 to 2^28 numbers, not " +
                                  std::to_string(grid.rows) + " x " + std::to_string(grid.cols));
  if (grid.stride < 0 || grid.stride >= grid.cols + (grid.stride == 0))
    throw Error(Errc::kUsage, "the stride of a grid lies inside its row of " +
                                  std::to_string(grid.cols) + ", not at " +
                                  std::to_string(grid.stride));
  if (values != static_cast<std::size_t>(grid.size()))
    throw Error(Errc::kUsage, std::to_string(values) + " numbers were given for a grid of " +
                                  std::to_string(grid.size()));
  if (grid.dependent && grid.wide)
    throw Error(Errc::kUsage, "the integers of a wide grid are not dependent");
  if (!prior.empty() && prior.size() != values)
    throw Error(Errc::kUsage, std::to_string(prior.size()) + " prior classes were given for " +
                                  std::to_string(values) + " numbers");
  for (std::uint8_t kind : prior)
    if (kind > 15) throw Error(Errc::kUsage, "a prior class is 0 to 15");
}

void check_independent(const IntegerGrid& grid) {
  if (grid.dependent)
    throw Error(Errc::kUsage, "the integers of a dependent grid are a trellis's to choose");
}

void check_magnitudes(std::span<const std::int32_t> values) {
  for (std::int32_t value : values)
    if (value > kMaxMagnitude || value < -kMaxMagnitude)
      throw Error(Errc::kUsage, "a number to code is beyond 2^20; take a larger step");
}

std::unique_ptr<codec::EncoderBackend> make_encoder(CodecProfile profile) {
  return profile == CodecProfile::kFast ? codec::make_fast_encoder() : codec::make_small_encoder();
}
std::unique_ptr<codec::DecoderBackend> make_decoder(CodecProfile profile,
                                                    std::span<const std::byte> stream) {
  return profile == CodecProfile::kFast ? codec::make_fast_decoder(stream)
                                        : codec::make_small_decoder(stream);
}

}  // namespace

std::string_view profile_name(CodecProfile profile) noexcept {
  return profile == CodecProfile::kSmall ? "small" : "fast";
}

std::string_view quantiser_name(Quantiser quantiser) noexcept {
  return quantiser == Quantiser::kNearest ? "nearest" : "trellis";
}

struct IntegerEncoder::Impl {
  std::unique_ptr<codec::EncoderBackend> backend;
};

IntegerEncoder::IntegerEncoder(CodecProfile profile)
    : impl_(std::make_unique<Impl>(Impl{make_encoder(profile)})) {}
IntegerEncoder::~IntegerEncoder() = default;
IntegerEncoder::IntegerEncoder(IntegerEncoder&&) noexcept = default;
IntegerEncoder& IntegerEncoder::operator=(IntegerEncoder&&) noexcept = default;

void IntegerEncoder::add(const IntegerGrid& grid, std::span<const std::int32_t> values,
                         std::span<const std::uint8_t> prior) {
  check(grid, values.size(), prior);
  check_magnitudes(values);
  impl_->backend->add(grid, values, prior);
}

std::vector<std::int32_t> IntegerEncoder::quantise_and_add(const IntegerGrid& grid,
                                                           std::span<const float> scaled,
                                                           std::span<const float> importance,
                                                           double lambda,
                                                           std::span<const std::uint8_t> prior) {
  check(grid, scaled.size(), prior);
  check_independent(grid);
  if (!importance.empty() && importance.size() != scaled.size() &&
      importance.size() != static_cast<std::size_t>(grid.cols))
    throw Error(Errc::kUsage, std::to_string(importance.size()) +
                                  " importances were given for a grid of " +
                                  std::to_string(grid.rows) + " x " + std::to_string(grid.cols));
  if (!(lambda >= 0) || !std::isfinite(lambda))
    throw Error(Errc::kUsage, "lambda is a finite number of at least 0");
  for (float number : scaled)
    if (!(std::fabs(number) <= static_cast<float>(kMaxMagnitude)))
      throw Error(Errc::kUsage, "a number to code is beyond 2^20 steps; take a larger step");
  std::vector<std::int32_t> chosen(scaled.size());
  impl_->backend->choose(grid, {scaled, importance, lambda}, prior, chosen);
  return chosen;
}

double IntegerEncoder::ideal_bits() const { return impl_->backend->ideal_bits(); }
std::vector<std::byte> IntegerEncoder::finish() { return impl_->backend->finish(); }

struct IntegerDecoder::Impl {
  std::unique_ptr<codec::DecoderBackend> backend;
};

IntegerDecoder::IntegerDecoder(CodecProfile profile, std::span<const std::byte> stream)
    : impl_(std::make_unique<Impl>(Impl{make_decoder(profile, stream)})) {}
IntegerDecoder::~IntegerDecoder() = default;
IntegerDecoder::IntegerDecoder(IntegerDecoder&&) noexcept = default;
IntegerDecoder& IntegerDecoder::operator=(IntegerDecoder&&) noexcept = default;

void IntegerDecoder::read(const IntegerGrid& grid, std::span<std::int32_t> values,
                          std::span<const std::uint8_t> prior) {
  check(grid, values.size(), prior);
  impl_->backend->read(grid, values, prior);
}

void IntegerDecoder::finish() {
  if (!impl_->backend->at_end())
    throw Error(Errc::kCorrupt, "a coded stream goes on after its last number; get the file again");
}

std::vector<float> expected_scales(const IntegerGrid& grid, std::span<const std::int32_t> values,
                                   std::span<const std::uint8_t> prior) {
  check(grid, values.size(), prior);
  check_independent(grid);
  check_magnitudes(values);
  return codec::expected_scales_of(grid, values, prior);
}

}  // namespace gbcompress
