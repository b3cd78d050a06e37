#include "codec/lanes/lanes_coder.h"

#include <cmath>
#include <cstring>

#include "codec/lanes/decoder.h"
#include "codec/lanes/stream.h"
#include "gbcompress/error.h"

namespace gbcompress::codec {
namespace {

using namespace lanes;

class LanesEncoder final : public EncoderBackend {
 public:
  void add(const IntegerGrid& grid, std::span<const std::int32_t> values,
           std::span<const std::uint8_t>) override {
    survey_.add(grid, values);
    grids_.push_back({grid, {values.begin(), values.end()}});
  }
  void choose(const IntegerGrid& grid, const Target& target, std::span<const std::uint8_t> prior,
              std::span<std::int32_t> chosen) override {
    if (target.lambda > 0)
      throw Error(Errc::kUsage, "the profile lanes takes the nearest integers; set lambda to 0");
    for (std::size_t i = 0; i < chosen.size(); ++i)
      chosen[i] = static_cast<std::int32_t>(std::lrint(target.scaled[i]));
    add(grid, chosen, prior);
  }
  double ideal_bits() const override {
    // Tables are made of everything, so nothing is known before.
    LanesEncoder copy;
    for (const auto& [grid, values] : grids_) copy.add(grid, values, {});
    return 8 * static_cast<double>(copy.finish().size());
  }

  std::vector<std::byte> finish() override {
    const std::vector<std::byte> head = survey_.finish();
    std::vector<std::uint32_t> sizes = {0, static_cast<std::uint32_t>(head.size())};
    std::vector<std::byte> stripes;
    const auto take = [&](const std::vector<std::byte>& stripe) {
      sizes.push_back(static_cast<std::uint32_t>(stripe.size()));
      stripes.insert(stripes.end(), stripe.begin(), stripe.end());
    };
    StripeWriter writer(survey_);
    for (const auto& [grid, values] : grids_) writer.add(grid, values, take);
    writer.flush(take);
    sizes[0] = static_cast<std::uint32_t>(sizes.size() - 2);
    const auto first = std::as_bytes(std::span(sizes));
    std::vector<std::byte> stream(first.begin(), first.end());
    stream.insert(stream.end(), head.begin(), head.end());
    stream.insert(stream.end(), stripes.begin(), stripes.end());
    return stream;
  }

 private:
  struct Grid {
    IntegerGrid form;
    std::vector<std::int32_t> values;
  };
  Survey survey_;
  std::vector<Grid> grids_;
};

class LanesDecoder final : public DecoderBackend {
 public:
  explicit LanesDecoder(std::span<const std::byte> stream)
      : parts_(stream_parts(stream)), head_(parts_.head), entries_(head_.sets()) {}

  void read(const IntegerGrid& grid, std::span<std::int32_t> values,
            std::span<const std::uint8_t>) override {
    const Shape shape(grid);
    const GridHead head = head_.read(shape, grid.dependent);
    GridDecoder decoder(grid, head, entries_);
    for (std::int64_t block = 0; block < shape.blocks(); ++block) {
      StripeCursor& cursor = next(shape.size(block));
      if (!decoder.decode(block, cursor, values.data() + shape.first(block)))
        throw_corrupt_stripe();
    }
  }
  bool at_end() const override {
    if (stripe_) stripe_->finish();
    head_.finish();
    return begun_ == parts_.stripes.size();
  }

 private:
  /// Where a block of that size is read from.
  StripeCursor& next(std::int64_t size) {
    if (!stripe_ || filled_ + size > kStripeValues) {
      if (stripe_) stripe_->finish();
      if (begun_ == parts_.stripes.size())
        throw Error(Errc::kTruncated, "a coded stream lacks its last stripe; get the file again");
      const auto stripe = parts_.stripes[begun_++];
      stripe_ = std::make_unique<StripeReader>(
          stripe, static_cast<std::size_t>(parts_.end - stripe.data()));
      filled_ = 0;
    }
    filled_ += size;
    return stripe_->cursor();
  }

  StreamParts parts_;
  HeadReader head_;
  Entries entries_;
  std::unique_ptr<StripeReader> stripe_;
  std::size_t begun_ = 0;
  std::int64_t filled_ = 0;
};

}  // namespace

StreamParts lanes::stream_parts(std::span<const std::byte> stream) {
  const auto need = [&](std::size_t bytes) {
    if (stream.size() < bytes)
      throw Error(Errc::kTruncated, "a coded stream ends after " + std::to_string(stream.size()) +
                                        " bytes; get the file again");
  };
  const auto size = [&](std::size_t i) {
    std::uint32_t number;
    std::memcpy(&number, stream.data() + 4 * i, sizeof number);
    return std::size_t{number};
  };
  need(8);
  const std::size_t count = size(0);
  need(4 * (count + 2));
  StreamParts parts{.end = stream.data() + stream.size()};
  std::size_t at = 4 * (count + 2);
  for (std::size_t i = 0; i <= count; ++i) {
    need(at + size(i + 1));
    const auto part = stream.subspan(at, size(i + 1));
    i == 0 ? void(parts.head = part) : parts.stripes.push_back(part);
    at += part.size();
  }
  if (at != stream.size())
    throw Error(Errc::kCorrupt,
                "a coded stream continues after its last stripe; get the file again");
  return parts;
}

std::unique_ptr<EncoderBackend> make_lanes_encoder() { return std::make_unique<LanesEncoder>(); }
std::unique_ptr<DecoderBackend> make_lanes_decoder(std::span<const std::byte> stream) {
  return std::make_unique<LanesDecoder>(stream);
}

}  // namespace gbcompress::codec
