#include "codec/small/small_coder.h"

#include <cmath>

#include "codec/small/binary_coder.h"
#include "codec/small/small_model.h"

namespace gbcompress::codec {
namespace {

/// Scale b of a Laplace distribution whose numbers round to other than zero with this probability
/// (units of 2^-16): P(0) = 1 - exp(-1 / (2 b)).
float scale_of(int nonzero) {
  static const std::vector<float> table = [] {
    std::vector<float> scales(65537);
    for (int p = 0; p <= 65536; ++p)
      scales[p] = static_cast<float>(std::clamp(-0.5 / std::log(p / 65536.0), 0.02, 1000.0));
    return scales;
  }();
  return table[nonzero];
}

/// -log2 of probabilities in units of 2^-16; for reports and choices only, never for a decoder.
double bits_of(int probability) {
  static const std::vector<double> table = [] {
    std::vector<double> bits(65537, 0.0);
    for (int p = 1; p <= 65536; ++p) bits[p] = 16 - std::log2(p);
    return bits;
  }();
  return table[probability];
}

struct BitCount {
  double bits = 0;

  bool decide(auto& model, const auto& keys, std::span<const int> features, MixerSets sets,
              bool bit) {
    const int ones = model.predict(keys, features, sets);
    bits += bits_of(bit ? ones : 65536 - ones);
    return bit;
  }
  bool even(bool bit) {
    bits += 1;
    return bit;
  }
};

/// A decoder's: who reads does not count bits.
struct Read {
  BinaryDecoder& coder;

  bool decide(auto& model, const auto& keys, std::span<const int> features, MixerSets sets, bool) {
    const bool bit =
        coder.code(false, static_cast<std::uint32_t>(model.predict(keys, features, sets)));
    model.learn(bit);
    return bit;
  }
  bool even(bool) { return coder.code(false, 1 << 15); }
};

template <typename Coder>
struct Code {
  Coder& coder;
  double bits = 0;

  bool decide(auto& model, const auto& keys, std::span<const int> features, MixerSets sets,
              bool bit) {
    const int ones = model.predict(keys, features, sets);
    bit = coder.code(bit, static_cast<std::uint32_t>(ones));
    model.learn(bit);
    bits += bits_of(bit ? ones : 65536 - ones);
    return bit;
  }
  bool even(bool bit) {
    bits += 1;
    return coder.code(bit, 1 << 15);
  }
};

int prior_at(std::span<const std::uint8_t> prior, std::size_t index) {
  return prior.empty() ? 0 : prior[index];
}

/// Of the nearest integer, the next one towards zero, and zero: the one with the least
/// weight * (scaled - integer)^2 + lambda * bits.
int cheapest(SmallModel& model, double scaled, double weight, double lambda) {
  const int nearest = static_cast<int>(std::lrint(scaled));
  if (lambda == 0 || nearest == 0) return nearest;
  int best = 0;
  double least = INFINITY;
  for (int candidate : {0, nearest - (nearest > 0 ? 1 : -1), nearest}) {
    BitCount count;
    model.visit(count, candidate);
    const double error = scaled - candidate;
    const double cost = weight * error * error + lambda * count.bits;
    if (cost < least) {
      least = cost;
      best = candidate;
    }
  }
  return best;
}

/// Stands where a coder would, for who only wants the bits.
struct NoCoder {
  bool code(bool bit, std::uint32_t) { return bit; }
};

class SmallEncoder final : public EncoderBackend {
 public:
  void add(const IntegerGrid& grid, std::span<const std::int32_t> values,
           std::span<const std::uint8_t> prior) override {
    model_.begin(grid);
    for (std::size_t i = 0; i < values.size(); ++i) {
      model_.look(prior_at(prior, i));
      model_.visit(code_, values[i]);
      model_.put(values[i]);
    }
    model_.end();
  }

  void choose(const IntegerGrid& grid, const Target& target, std::span<const std::uint8_t> prior,
              std::span<std::int32_t> chosen) override {
    model_.begin(grid);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      model_.look(prior_at(prior, i));
      chosen[i] = cheapest(model_, static_cast<double>(target.scaled[i]),
                           static_cast<double>(target.weight(i, grid.cols)), target.lambda);
      model_.visit(code_, chosen[i]);
      model_.put(chosen[i]);
    }
    model_.end();
  }

  double ideal_bits() const override { return code_.bits; }
  std::vector<std::byte> finish() override { return encoder_.finish(); }

 private:
  SmallModel model_;
  BinaryEncoder encoder_;
  Code<BinaryEncoder> code_{encoder_};
};

class SmallDecoder final : public DecoderBackend {
 public:
  explicit SmallDecoder(std::span<const std::byte> stream) : decoder_(stream) {}

  void read(const IntegerGrid& grid, std::span<std::int32_t> values,
            std::span<const std::uint8_t> prior) override {
    model_.begin(grid);
    for (std::size_t i = 0; i < values.size(); ++i) {
      model_.look(prior_at(prior, i));
      values[i] = model_.visit(read_, 0);
      if (std::abs(values[i]) > kMaxMagnitude)
        throw Error(Errc::kCorrupt, "a coded stream holds a value beyond 2^20; get the file again");
      model_.put(values[i]);
    }
    model_.end();
  }
  bool at_end() const override { return decoder_.at_end(); }

 private:
  SmallModel model_;
  BinaryDecoder decoder_;
  Read read_{decoder_};
};

}  // namespace

std::unique_ptr<EncoderBackend> make_small_encoder() { return std::make_unique<SmallEncoder>(); }
std::unique_ptr<DecoderBackend> make_small_decoder(std::span<const std::byte> stream) {
  return std::make_unique<SmallDecoder>(stream);
}

std::vector<float> expected_scales_of(const IntegerGrid& grid, std::span<const std::int32_t> values,
                                      std::span<const std::uint8_t> prior) {
  SmallModel model;
  std::vector<float> scales(values.size());
  model.begin(grid);
  for (std::size_t i = 0; i < values.size(); ++i) {
    model.look(prior_at(prior, i));
    scales[i] = scale_of(model.probability_of_nonzero());
    model.learn_nonzero(values[i] != 0);
    model.put(values[i]);
  }
  return scales;
}

}  // namespace gbcompress::codec
