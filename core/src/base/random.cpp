#include "base/random.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include "base/digest.h"

namespace gbcompress {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c,
                                    std::array<std::uint32_t, 2> k) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

namespace {
/// Two independent normals from two uniform words.
std::pair<float, float> box_muller(std::uint32_t first, std::uint32_t second) noexcept {
  const double u = (first + 0.5) * 0x1p-32;
  const double angle = 2 * std::numbers::pi * (second * 0x1p-32);
  const double radius = std::sqrt(-2 * std::log(u));
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}
}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view purpose, std::string_view layer,
                           std::uint64_t step)
    : step_(step) {
  std::string key(reinterpret_cast<const char*>(&seed), sizeof seed);
  key.append(purpose).push_back('\0');
  key.append(layer);
  const std::uint64_t hash = xxh3_64(std::as_bytes(std::span(key)));
  key_ = {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

std::array<std::uint32_t, 4> RandomStream::block(std::uint64_t index) const noexcept {
  return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                 static_cast<std::uint32_t>(step_), static_cast<std::uint32_t>(step_ >> 32)},
                key_);
}

std::uint32_t RandomStream::bits(std::uint64_t index) const noexcept {
  return block(index / 4)[index % 4];
}

void RandomStream::fill_bits(std::span<std::uint32_t> out, std::uint64_t first) const noexcept {
  std::size_t i = 0;
  for (; i < out.size() && (first + i) % 4 != 0; ++i) out[i] = bits(first + i);
  for (; i + 4 <= out.size(); i += 4) {
    const auto words = block((first + i) / 4);
    for (std::size_t w = 0; w < 4; ++w) out[i + w] = words[w];
  }
  for (; i < out.size(); ++i) out[i] = bits(first + i);
}

float RandomStream::normal(std::uint64_t index) const noexcept {
  // Numbers 2p and 2p + 1 are the two normals made of the same two uniforms.
  const auto words = block(index / 4);
  const std::size_t pair = index % 4 / 2 * 2;
  const auto normals = box_muller(words[pair], words[pair + 1]);
  return index % 2 ? normals.second : normals.first;
}

void RandomStream::fill_normal(std::span<float> out, float mean, float deviation,
                               std::uint64_t first) const noexcept {
  std::size_t i = 0;
  for (; i < out.size() && (first + i) % 4 != 0; ++i) out[i] = mean + deviation * normal(first + i);
  // Four numbers of one block: the same as normal() gives, for a third of the work.
  for (; i + 4 <= out.size(); i += 4) {
    const auto words = block((first + i) / 4);
    for (std::size_t p = 0; p < 4; p += 2) {
      const auto [even, odd] = box_muller(words[p], words[p + 1]);
      out[i + p] = mean + deviation * even;
      out[i + p + 1] = mean + deviation * odd;
    }
  }
  for (; i < out.size(); ++i) out[i] = mean + deviation * normal(first + i);
}

std::vector<std::int64_t> RandomStream::permutation(std::int64_t n) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = n - 1; i > 0; --i) {
    // 64 random bits modulo i + 1: the bias is below 2^-32 for any n that fits in memory.
    const std::uint64_t r = (std::uint64_t{bits(2 * static_cast<std::uint64_t>(i))} << 32) |
                            bits(2 * static_cast<std::uint64_t>(i) + 1);
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(r % (static_cast<std::uint64_t>(i) + 1))]);
  }
  return order;
}

}  // namespace gbcompress
