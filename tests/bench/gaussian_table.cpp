// Squared error of unit Gaussian numbers at 1 to 6 bits each: what our trellis and coders reach
// beside the bound, beside uniform scalar quantization with an ideal entropy coder, and beside
// published figures.
//
//   gbc_gaussian_table [--json]
//
// Bits are those of the coded stream, all of it, over 2^20 numbers. The numbers are scaled until
// the stream has the bits that are asked for; steps come in sixteenths of an octave only.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <numbers>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/random.h"
#include "gbcompress/codec.h"
#include "quantize/matrix.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kSide = 1024;
constexpr double kAccuracy = 0.0005;  // of bits
constexpr int kTries = 8;

double bound(double bits) { return std::exp2(-2 * bits); }

struct Coded {
  double bits, error;  ///< of one number
};

/// Numbers of that deviation at a step of 1.
Coded code(std::span<const float> normals, double deviation, CodecProfile profile,
           Quantizer quantizer) {
  std::vector<float> values(normals.begin(), normals.end());
  for (float& value : values) value *= static_cast<float>(deviation);
  IntegerGrid grid{kSide, kSide, 0};
  grid.lanes = profile == CodecProfile::kLanes;
  const double squares = squares_of(values);
  const StepMatrix matrix(grid, std::move(values), {});
  const StepMatrix::Chosen chosen = matrix.choose(0, quantizer, usable_processors());
  IntegerEncoder encoder(profile);
  encoder.add(chosen.values.grid, chosen.values.integers);
  const auto n = static_cast<double>(normals.size());
  return {8 * static_cast<double>(encoder.finish().size()) / n,
          chosen.relative_error * squares / n / (deviation * deviation)};
}

/// The error at that many bits, and the bits.
Coded at_bits(std::span<const float> normals, double bits, CodecProfile profile,
              Quantizer quantizer) {
  double deviation = std::exp2(bits - 2);
  Coded coded{};
  for (int tries = 0; tries < kTries; ++tries) {
    coded = code(normals, deviation, profile, quantizer);
    if (std::fabs(coded.bits - bits) < kAccuracy) break;
    // An octave of steps is worth a bit; at low rates less, so that this overshoots a little.
    deviation *= std::exp2((bits - coded.bits) * std::max(1.0, 1.3 - 0.1 * bits));
  }
  return coded;
}

/// Uniform thresholds around 0, reconstruction at the means of the cells, entropy as the rate.
Coded uniform(double step) {
  const auto density = [](double x) {
    return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  };
  const auto beyond = [](double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); };
  double bits = 0, error = 1;  // what the means of the cells keep is taken off
  for (int k = 0; (k - 0.5) * step < 9; ++k) {
    const double low = (k - 0.5) * step, high = (k + 0.5) * step;
    const double p = beyond(low) - beyond(high);
    if (p < 1e-300) break;
    const double sides = k == 0 ? 1 : 2, mean = (density(low) - density(high)) / p;
    bits -= sides * p * std::log2(p);
    error -= sides * p * mean * mean;
  }
  return {bits, error};
}

Coded uniform_at(double bits) {
  double low = 0.01, high = 8;
  while (high - low > 1e-9) {
    const double middle = (low + high) / 2;
    (uniform(middle).bits > bits ? low : high) = middle;
  }
  return uniform(low);
}

/// Of papers: error of a unit Gaussian at a fixed number of bits.
struct Published {
  const char* name;
  double bits, error;
};
constexpr Published kPublished[] = {
    {"QTIP, L = 12 (arXiv 2406.11235, table 1)", 1, 0.280},
    {"Lloyd-Max (QTIP, table 1)", 2, 0.118},
    {"QuIP# E8P (QTIP, table 1)", 2, 0.089},
    {"QTIP, least of table 1", 2, 0.068},
    {"QTIP, L = 12", 3, 0.0198},
    {"QTIP, L = 12", 4, 0.0055},
};
/// WaterSIC: a uniform quantizer behind an ideal entropy coder is 0.255 bits above the bound at
/// high rates.
constexpr double kWaterSicGap = 0.255;

struct Row {
  std::string name;
  double bits, error;
};

std::vector<Row> rows_at(std::span<const float> normals, double bits) {
  std::vector<Row> rows{{"bound", bits, bound(bits)}};
  const auto add = [&](const char* name, CodecProfile profile, Quantizer quantizer) {
    const Coded coded = at_bits(normals, bits, profile, quantizer);
    rows.push_back({name, coded.bits, coded.error});
  };
  add("trellis, lanes", CodecProfile::kLanes, Quantizer::kTrellis);
  add("trellis, small", CodecProfile::kSmall, Quantizer::kTrellis);
  add("nearest, lanes", CodecProfile::kLanes, Quantizer::kNearest);
  rows.push_back({"uniform, ideal entropy coder", bits, uniform_at(bits).error});
  if (bits >= 3)
    rows.push_back({"WaterSIC (arXiv 2603.04956), by its gap", bits, bound(bits - kWaterSicGap)});
  for (const Published& of : kPublished)
    if (of.bits == bits) rows.push_back({of.name, bits, of.error});
  return rows;
}

void print(const std::vector<Row>& rows, bool json, const char* comma) {
  for (const Row& row : rows) {
    const double gap = row.bits + std::log2(row.error) / 2;
    if (!json) {
      std::printf("%4.0f bits  %-46s %8.4f  %10.6f  %6.3f\n", std::round(row.bits),
                  row.name.c_str(), row.bits, row.error, gap);
      continue;
    }
    std::printf("%s{\"name\": \"%.0f bits, %s\", \"value\": %.4g, \"unit\": \"\"}", comma,
                std::round(row.bits), row.name.c_str(), row.error);
    comma = ",\n ";
  }
}

void run(bool json) {
  std::vector<float> normals(static_cast<std::size_t>(kSide * kSide));
  RandomStream(1, "gaussian_table").fill_normal(normals, 0, 1);
  if (json)
    std::printf("{\"figures\": [\n ");
  else
    std::printf("           %-46s %8s  %10s  %6s\n", "squared error of unit Gaussian numbers",
                "bits", "error", "gap");
  for (const double bits : {1.0, 2.0, 3.0, 4.0, 6.0})
    print(rows_at(normals, bits), json, bits > 1 ? ",\n " : "");
  if (json) std::printf("]}\n");
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) {
  try {
    gbcompress::run(argc > 1 && std::strcmp(argv[1], "--json") == 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gbc_gaussian_table: %s\n", error.what());
    return 1;
  }
  return 0;
}
