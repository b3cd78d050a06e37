#include "gbcompress/codec.h"

#include <cmath>

#include "codec/backend.h"
#include "codec/estimate/size_model.h"
#include "codec/lanes/lanes_coder.h"
#include "codec/small/small_coder.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Lanes keep nothing of a value but what lies in its block.
std::int64_t most_values(CodecProfile profile) {
  const bool many = profile == CodecProfile::kLanes && sizeof(std::size_t) > 4;
  return std::int64_t{1} << (many ? 31 : 28);
}

void check(const IntegerGrid& grid, std::size_t values, std::span<const std::uint8_t> prior,
           CodecProfile profile) {
  const std::int64_t most = most_values(profile);
  if (grid.rows < 1 || grid.cols < 1 || grid.rows > most || grid.cols > most / grid.rows)
    throw Error(Errc::kUsage, "a grid to code has 1 to " + std::to_string(most) + " values, not " +
                                  std::to_string(grid.rows) + " x " + std::to_string(grid.cols));
  if (grid.stride < 0 || grid.stride >= grid.cols + (grid.stride == 0))
    throw Error(Errc::kUsage, "the stride of a grid lies inside its row of " +
                                  std::to_string(grid.cols) + ", not at " +
                                  std::to_string(grid.stride));
  if (values != static_cast<std::size_t>(grid.size()))
    throw Error(Errc::kUsage, std::to_string(values) + " values were given for a grid of " +
                                  std::to_string(grid.size()));
  if (grid.dependent && grid.wide)
    throw Error(Errc::kUsage, "the integers of a wide grid are not dependent");
  if (!prior.empty() && prior.size() != values)
    throw Error(Errc::kUsage, std::to_string(prior.size()) + " prior classes were given for " +
                                  std::to_string(values) + " values");
  for (std::uint8_t kind : prior)
    if (kind > 15) throw Error(Errc::kUsage, "a prior class is 0 to 15");
}

/// Whether states take turns is what integers stand for: a profile knows one way.
void check_order(const IntegerGrid& grid, CodecProfile profile) {
  if (grid.dependent && grid.lanes != (profile == CodecProfile::kLanes))
    throw Error(Errc::kUsage,
                std::string("the states of a dependent grid ") +
                    (grid.lanes ? "are in lanes, which only the profile lanes codes"
                                : "are not in lanes, as the profile lanes needs them") +
                    "; choose its integers for that profile");
}

void check_independent(const IntegerGrid& grid) {
  if (grid.dependent)
    throw Error(Errc::kUsage, "the integers of a dependent grid are a trellis's to choose");
}

void check_magnitudes(std::span<const std::int32_t> values) {
  for (std::int32_t value : values)
    if (value > kMaxMagnitude || value < -kMaxMagnitude)
      throw Error(Errc::kUsage, "a value to code is beyond 2^20; use a larger step size");
}

std::unique_ptr<codec::EncoderBackend> make_encoder(CodecProfile profile) {
  switch (profile) {
    case CodecProfile::kSmall:
      return codec::make_small_encoder();
    case CodecProfile::kLanes:
      return codec::make_lanes_encoder();
  }
  throw Error(Errc::kUsage, "there is no such profile");
}
std::unique_ptr<codec::DecoderBackend> make_decoder(CodecProfile profile,
                                                    std::span<const std::byte> stream) {
  switch (profile) {
    case CodecProfile::kSmall:
      return codec::make_small_decoder(stream);
    case CodecProfile::kLanes:
      return codec::make_lanes_decoder(stream);
  }
  throw Error(Errc::kUsage, "there is no such profile");
}

}  // namespace

std::string_view profile_name(CodecProfile profile) noexcept {
  switch (profile) {
    case CodecProfile::kSmall:
      return "small";
    case CodecProfile::kLanes:
      return "lanes";
  }
  return "";
}

std::string_view quantizer_name(Quantizer quantizer) noexcept {
  switch (quantizer) {
    case Quantizer::kNearest:
      return "nearest";
    case Quantizer::kTrellis:
      return "trellis";
  }
  return "";
}

struct IntegerEncoder::Impl {
  CodecProfile profile;
  std::unique_ptr<codec::EncoderBackend> backend;
};

IntegerEncoder::IntegerEncoder(CodecProfile profile)
    : impl_(std::make_unique<Impl>(Impl{profile, make_encoder(profile)})) {}
IntegerEncoder::~IntegerEncoder() = default;
IntegerEncoder::IntegerEncoder(IntegerEncoder&&) noexcept = default;
IntegerEncoder& IntegerEncoder::operator=(IntegerEncoder&&) noexcept = default;

void IntegerEncoder::add(const IntegerGrid& grid, std::span<const std::int32_t> values,
                         std::span<const std::uint8_t> prior) {
  check(grid, values.size(), prior, impl_->profile);
  check_order(grid, impl_->profile);
  check_magnitudes(values);
  impl_->backend->add(grid, values, prior);
}

std::vector<std::int32_t> IntegerEncoder::quantize_and_add(const IntegerGrid& grid,
                                                           std::span<const float> scaled,
                                                           std::span<const float> importance,
                                                           double lambda,
                                                           std::span<const std::uint8_t> prior) {
  check(grid, scaled.size(), prior, impl_->profile);
  check_independent(grid);
  if (!importance.empty() && importance.size() != scaled.size() &&
      importance.size() != static_cast<std::size_t>(grid.cols))
    throw Error(Errc::kUsage, std::to_string(importance.size()) +
                                  " importances were given for a grid of " +
                                  std::to_string(grid.rows) + " x " + std::to_string(grid.cols));
  if (!(lambda >= 0) || !std::isfinite(lambda))
    throw Error(Errc::kUsage, "lambda must be a finite number of at least 0");
  for (float number : scaled)
    if (!(std::fabs(number) <= static_cast<float>(kMaxMagnitude)))
      throw Error(Errc::kUsage, "a value to code is beyond 2^20 steps; use a larger step size");
  std::vector<std::int32_t> chosen(scaled.size());
  impl_->backend->choose(grid, {scaled, importance, lambda}, prior, chosen);
  return chosen;
}

double IntegerEncoder::ideal_bits() const { return impl_->backend->ideal_bits(); }
std::vector<std::byte> IntegerEncoder::finish() { return impl_->backend->finish(); }

struct IntegerDecoder::Impl {
  CodecProfile profile;
  std::unique_ptr<codec::DecoderBackend> backend;
};

IntegerDecoder::IntegerDecoder(CodecProfile profile, std::span<const std::byte> stream)
    : impl_(std::make_unique<Impl>(Impl{profile, make_decoder(profile, stream)})) {}
IntegerDecoder::~IntegerDecoder() = default;
IntegerDecoder::IntegerDecoder(IntegerDecoder&&) noexcept = default;
IntegerDecoder& IntegerDecoder::operator=(IntegerDecoder&&) noexcept = default;

void IntegerDecoder::read(const IntegerGrid& grid, std::span<std::int32_t> values,
                          std::span<const std::uint8_t> prior) {
  check(grid, values.size(), prior, impl_->profile);
  check_order(grid, impl_->profile);
  impl_->backend->read(grid, values, prior);
}

void IntegerDecoder::finish() {
  if (!impl_->backend->at_end())
    throw Error(Errc::kCorrupt,
                "a coded stream has bytes after its last value; get the file again");
}

double estimated_bits(CodecProfile profile, const IntegerGrid& grid,
                      std::span<const std::int32_t> values) {
  check(grid, values.size(), {}, profile);
  check_magnitudes(values);
  if (profile == CodecProfile::kLanes) return codec::estimate_bits(grid, values);
  IntegerEncoder encoder(profile);
  encoder.add(grid, values);
  return encoder.ideal_bits();
}

std::vector<float> expected_scales(const IntegerGrid& grid, std::span<const std::int32_t> values,
                                   std::span<const std::uint8_t> prior) {
  check(grid, values.size(), prior, CodecProfile::kSmall);
  check_independent(grid);
  check_magnitudes(values);
  return codec::expected_scales_of(grid, values, prior);
}

}  // namespace gbcompress
