// Exact deltas of two model files, beside what other systems write: bytes, and bytes of the base a
// second and core.
//
//   gbc_delta_bench BASE.safetensors NOW.safetensors [forms]
//
// Prints one JSON object. "ours" is the form that encode_change() chooses for each tensor; with
// "forms" both forms are measured too.
// Baselines, all tensors of a type together:
//   entropy        order-0 entropy of the differences in ulps, without any table. Where most
//   differences occur once,
//                  as in float32, this is below what any coder reaches; entropy_corrected is an
//                  estimate without that
//   gaps16_zstd1   gaps of 16 bits and values of the changed elements under zstd -1 (PULSE)
//   index32        an index of 32 bits and the value of each changed element (TRL)
//   mask_values    a bit for each element and the values of the changed ones (BitSnap)
//   xor_zstd3      XOR with the base, byte planes, zstd -3 (LMC)
// Times are processor time of one thread, the best of three, and of coding alone.
#include <time.h>
#include <zstd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "codec/delta/change.h"
#include "codec/delta/elements.h"
#include "gbcompress/tensors.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;
namespace delta = codec::delta;

constexpr int kRuns = 3;

struct Pair {
  DType dtype = DType::kF32;
  codec::ChangeGrid grid;
  std::span<const std::byte> base, now;
};

/// Of this thread: others may share the processor.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double best_seconds(const std::function<void()>& run) {
  double best = INFINITY;
  for (int i = 0; i < kRuns; ++i) {
    const double start = processor_seconds();
    run();
    best = std::min(best, processor_seconds() - start);
  }
  return best;
}

std::uint64_t element(std::span<const std::byte> bytes, std::size_t i, std::size_t size) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + i * size, size);
  return value;
}

/// Of the differences in ulps of all tensors together, bits: as measured, and plus what too few
/// occurrences of too many differences hide, by Miller and Madow.
std::pair<double, double> entropy(const std::vector<Pair>& pairs, std::size_t size) {
  std::unordered_map<std::uint64_t, double> counts;
  double all = 0;
  for (const Pair& pair : pairs) {
    const bool floats = delta::form_of(pair.dtype)->mantissa_bits > 0;
    const auto ordered = [&](std::uint64_t bits) -> std::uint64_t {
      if (size == 2) return delta::to_ordered(static_cast<std::uint16_t>(bits), floats);
      if (size == 4) return delta::to_ordered(static_cast<std::uint32_t>(bits), floats);
      if (size == 8) return delta::to_ordered(bits, floats);
      return delta::to_ordered(static_cast<std::uint8_t>(bits), floats);
    };
    for (std::size_t i = 0; i < pair.base.size() / size; ++i, ++all)
      ++counts[ordered(element(pair.now, i, size)) - ordered(element(pair.base, i, size))];
  }
  double bits = 0;
  for (const auto& [difference, count] : counts) bits += count * std::log2(all / count);
  return {bits, bits + (static_cast<double>(counts.size()) - 1) / (2 * std::log(2.0))};
}

Bytes zstd(const Bytes& raw, int level) {
  Bytes packed(ZSTD_compressBound(raw.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), level));
  return packed;
}

/// Gaps between changed elements and their values; a gap of 65,535 says that more follow.
std::pair<Bytes, Bytes> gaps_and_values(const std::vector<Pair>& pairs, std::size_t size) {
  Bytes gaps, values;
  for (const Pair& pair : pairs) {
    std::size_t gap = 0;
    for (std::size_t i = 0; i < pair.base.size() / size; ++i, ++gap) {
      if (std::memcmp(pair.base.data() + i * size, pair.now.data() + i * size, size) == 0) continue;
      for (;; gap -= 65535) {
        const auto part = static_cast<std::uint16_t>(std::min<std::size_t>(gap, 65535));
        gaps.push_back(static_cast<std::byte>(part));
        gaps.push_back(static_cast<std::byte>(part >> 8));
        if (gap < 65535) break;
      }
      const auto at = pair.now.begin() + static_cast<std::ptrdiff_t>(i * size);
      values.insert(values.end(), at, at + static_cast<std::ptrdiff_t>(size));
      gap = static_cast<std::size_t>(-1);
    }
  }
  return {gaps, values};
}

Bytes xor_planes(const std::vector<Pair>& pairs, std::size_t size) {
  Bytes planes;
  for (const Pair& pair : pairs) {
    const std::size_t n = pair.base.size() / size, first = planes.size();
    planes.resize(first + pair.base.size());
    for (std::size_t b = 0; b < size; ++b)
      for (std::size_t i = 0; i < n; ++i)
        planes[first + b * n + i] = pair.base[i * size + b] ^ pair.now[i * size + b];
  }
  return planes;
}

nlohmann::json baselines(const std::vector<Pair>& pairs, std::size_t size, std::size_t elements,
                         std::size_t changed) {
  nlohmann::json row;
  const auto [measured, corrected] = entropy(pairs, size);
  row["entropy"] = measured / 8;
  row["entropy_corrected"] = corrected / 8;
  auto [gaps, values] = gaps_and_values(pairs, size);
  row["gaps16_zstd1"] = zstd(gaps, 1).size() + zstd(values, 1).size();
  row["index32"] = changed * (4 + size);
  row["mask_values"] = elements / 8 + changed * size;
  Bytes packed;
  const double bytes = static_cast<double>(elements * size);
  row["xor_zstd3_encode_mb_s"] =
      bytes / 1e6 / best_seconds([&] { packed = zstd(xor_planes(pairs, size), 3); });
  row["xor_zstd3"] = packed.size();
  Bytes back(elements * size);
  row["xor_zstd3_decode_mb_s"] =
      bytes / 1e6 / best_seconds([&] {
        ZSTD_decompress(back.data(), back.size(), packed.data(), packed.size());
        std::size_t first = 0;  // planes back to elements, onto the base
        std::uint64_t sum = 0;
        for (const Pair& pair : pairs) {
          const std::size_t n = pair.base.size() / size;
          Bytes out(pair.base.begin(), pair.base.end());
          for (std::size_t b = 0; b < size; ++b)
            for (std::size_t i = 0; i < n; ++i) out[i * size + b] ^= back[first + b * n + i];
          first += pair.base.size();
          sum += std::to_integer<std::uint64_t>(out[0]);
        }
        if (sum == 1) std::puts("");
      });
  return row;
}

nlohmann::json measure(const std::vector<Pair>& pairs, bool forms) {
  const auto size = static_cast<std::size_t>(dtype_bits(pairs.front().dtype)) / 8;
  std::size_t elements = 0, changed = 0;
  for (const Pair& pair : pairs) {
    elements += pair.base.size() / size;
    for (std::size_t i = 0; i < pair.base.size() / size; ++i)
      changed += element(pair.base, i, size) != element(pair.now, i, size);
  }
  nlohmann::json row = baselines(pairs, size, elements, changed);
  row["elements"] = elements;
  row["changed"] = changed;
  const double bytes = static_cast<double>(elements * size);
  const auto one = [&](const std::string& name, std::optional<codec::ChangeForm> form) {
    std::vector<Bytes> sections;
    const double encode = best_seconds([&] {
      sections.clear();
      for (const Pair& pair : pairs)
        sections.push_back(encode_change(pair.dtype, pair.grid, pair.base, pair.now, form));
    });
    std::vector<Bytes> fresh;
    for (const Pair& pair : pairs) fresh.emplace_back(pair.base.begin(), pair.base.end());
    double decode = INFINITY;
    for (int run = 0; run < kRuns; ++run) {
      std::vector<Bytes> elements_of = fresh;
      const double start = processor_seconds();
      for (std::size_t i = 0; i < pairs.size(); ++i)
        apply_change(pairs[i].dtype, pairs[i].grid, sections[i], elements_of[i]);
      decode = std::min(decode, processor_seconds() - start);
      for (std::size_t i = 0; i < pairs.size(); ++i)
        if (!std::equal(elements_of[i].begin(), elements_of[i].end(), pairs[i].now.begin()))
          throw std::runtime_error(name + " does not give back tensor " + std::to_string(i));
    }
    std::size_t total = 0;
    for (const Bytes& section : sections) total += section.size();
    row[name] = total;
    row[name + "_encode_mb_s"] = bytes / 1e6 / encode;
    row[name + "_decode_mb_s"] = bytes / 1e6 / decode;
  };
  one("ours", {});
  if (!forms) return row;
  one("sparse", codec::ChangeForm::kSparse);
  one("dense", codec::ChangeForm::kDense);
  return row;
}

int run(const char* base_path, const char* now_path, bool forms) {
  const TensorBundle base = open_tensors(base_path), now = open_tensors(now_path);
  std::map<std::string, std::vector<Pair>> by_type;
  for (const TensorEntry& tensor : now.tensors) {
    const TensorEntry* before = base.find(tensor.name);
    if (!before || before->dtype != tensor.dtype || before->shape != tensor.shape ||
        tensor.bytes.empty())
      throw std::runtime_error("the files hold other tensors: " + tensor.name);
    by_type[std::string(dtype_name(tensor.dtype))].push_back(
        {tensor.dtype, codec::change_grid(tensor.shape), before->bytes, tensor.bytes});
  }
  nlohmann::json result;
  for (const auto& [name, pairs] : by_type) result[name] = measure(pairs, forms);
  std::puts(result.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) {
  const bool forms = argc == 4 && std::string_view(argv[3]) == "forms";
  if (argc != 3 && !forms) {
    std::fprintf(stderr, "usage: gbc_delta_bench BASE.safetensors NOW.safetensors [forms]\n");
    return 2;
  }
  try {
    return gbcompress::run(argv[1], argv[2], forms);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
