// Chooses the form of a section of planes by a sample of its elements.
#include <cmath>
#include <cstring>

#include "artifact/sections/packing.h"
#include "artifact/sections/plane_parts.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;
using Counts = codec::ByteCounts;

/// Least saving of a coded plane, as a share of its size: mantissas are not worth the time.
constexpr double kSaved = 0.01;
/// Bytes of an entropy beyond this share of theirs are noise.
constexpr double kNoise = 0.995;
/// The sample: pieces from all over the tensor, or the whole tensor up to kAll elements.
constexpr std::size_t kPieces = 64, kPiece = 4096, kAll = 2 * kPieces * kPiece;
/// Least saving of one more mantissa bit in the first plane, as a share of the elements' bits.
constexpr double kWorthBits = 1e-3;
constexpr unsigned kMostBits = 2;
/// Classes for each octave of the mean magnitude of runs, and the bytes that a table needs.
constexpr double kClassesAnOctave = 3;
constexpr std::uint64_t kLeastOfTable = 4096;
constexpr std::size_t kRuns[] = {256, 1024};
/// Zeros are set apart where they are at least this share of the elements.
constexpr double kZeros = 1.0 / 32;

struct Sample {
  Bytes elements;
  bool whole;  ///< the sample is the whole tensor
};

Sample sample_of(std::span<const std::byte> raw, std::size_t size) {
  if (raw.size() / size <= kAll) return {{raw.begin(), raw.end()}, true};
  return {pieces_of(raw, size, kPieces, kPiece), false};
}

double entropy(const Counts& counts) {
  double all = 0, bits = 0;
  for (const std::uint32_t n : counts) all += n;
  for (const std::uint32_t n : counts)
    if (n > 0) bits += n * std::log2(all / n);
  return bits;
}

std::uint8_t rarest(const Counts& counts) {
  return static_cast<std::uint8_t>(std::min_element(counts.begin(), counts.end()) - counts.begin());
}

/// Tables of the first plane, and the bits that it takes with them.
struct Tables {
  std::size_t run = codec::kLeastRun;
  std::vector<double> bounds;
  std::vector<Counts> counts;
  double bits = 0;
};

/// Bits of a table of these bytes: widths of a 32nd and more take two bytes.
double table_bits(const Counts& counts) {
  std::uint64_t all = 0;
  std::size_t first = counts.size(), last = 0, wide = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    all += counts[s];
    if (counts[s] == 0) continue;
    first = std::min(first, s);
    last = s;
  }
  for (const std::uint32_t n : counts) wide += 32 * std::uint64_t{n} >= all && n > 0;
  return 8.0 * static_cast<double>(3 + last - std::min(first, last) + wide);
}

/// Bits of the states of a stream.
double states_bits(std::size_t bytes) { return 32.0 * static_cast<double>(codec::lanes_of(bytes)); }

/// @param scale  elements of the tensor over those of the sample
Tables one_table(std::span<const std::byte> plane, double scale) {
  Tables tables{.counts = {Counts{}}};
  codec::count_bytes(plane, tables.counts.front());
  tables.bits = scale * entropy(tables.counts.front()) + table_bits(tables.counts.front()) +
                states_bits(plane.size());
  return tables;
}

/// The means at which classes begin, such that each class has enough bytes for a table of its own.
std::vector<double> bounds_of(std::vector<double> means, std::size_t run, double step) {
  std::sort(means.begin(), means.end());
  step = std::max(step, (means.back() - means.front()) / (codec::kMostByteTables - 1));
  std::vector<double> bounds;
  std::size_t first = 0;
  double begin = means.front();
  for (std::size_t i = 0; i < means.size(); ++i) {
    const bool enough = (i - first) * run >= kLeastOfTable;
    if (means[i] < begin + step || !enough || (means.size() - i) * run < kLeastOfTable) continue;
    bounds.push_back(means[i]);
    begin = means[i];
    first = i;
  }
  if (bounds.size() >= codec::kMostByteTables) bounds.resize(codec::kMostByteTables - 1);
  return bounds;
}

/// Tables of runs of that length, by their means.
Tables many_tables(std::span<const std::byte> plane, double scale, std::size_t run,
                   const PlanesForm& form) {
  Tables tables{.run = run};
  std::vector<double> means;
  for (std::size_t at = 0; at + run <= plane.size(); at += run)
    means.push_back(mean_of(plane.subspan(at, run), form.zeros_apart));
  if (means.size() < 2) return tables;
  tables.bounds = bounds_of(means, run, (1U << form.mantissa) / kClassesAnOctave);
  tables.counts.resize(tables.bounds.size() + 1);
  for (std::size_t at = 0; at < plane.size(); at += run) {
    const auto part = plane.subspan(at, std::min(run, plane.size() - at));
    const auto above = std::upper_bound(tables.bounds.begin(), tables.bounds.end(),
                                        mean_of(part, form.zeros_apart));
    codec::count_bytes(part,
                       tables.counts[static_cast<std::size_t>(above - tables.bounds.begin())]);
  }
  tables.bits = states_bits(plane.size());
  for (const Counts& counts : tables.counts)
    tables.bits += scale * entropy(counts) + table_bits(counts);
  tables.bits += 4 * scale * static_cast<double>(plane.size()) / static_cast<double>(run);
  return tables;
}

Tables best_tables(std::span<const std::byte> plane, double scale, const PlanesForm& form) {
  Tables best = one_table(plane, scale);
  for (const std::size_t run : kRuns) {
    Tables tables = many_tables(plane, scale, run, form);
    if (tables.bounds.empty() || tables.bits >= best.bits) continue;
    best = std::move(tables);
  }
  return best;
}

/// The form with so many bits of the mantissa in the first plane, and the bits of all elements.
struct Candidate {
  PlanesForm form;
  Tables tables;
  Bytes planes;
  std::size_t some = 0;    ///< bytes of each plane but the first
  std::size_t beyond = 0;  ///< elements of the sample that are escaped
  double bits = 0;
};

Candidate candidate(const Sample& sample, PlanesForm form, unsigned largest, double scale) {
  Candidate result;
  const std::size_t count = sample.elements.size() / form.size;
  result.planes.resize(sample.elements.size());
  if (form.mantissa > 0) {
    const unsigned window = 256U >> form.mantissa, room = 4;
    form.base = largest + room > window ? largest + room - window : 0;
  }
  if (form.mantissa > 0 || form.zeros_apart) form.escape = 255;
  result.form = form;
  result.beyond = split(form, sample.elements, result.planes.data());
  result.some = count;
  const auto first = std::span<const std::byte>(result.planes).first(count);
  if (form.zeros_apart) {
    result.some = set_zeros_apart(form, sample.elements, result.planes.data());
    result.beyond =
        static_cast<std::size_t>(std::ranges::count(first, static_cast<std::byte>(*form.escape)));
  }
  result.tables = best_tables(first, scale, form);
  result.bits = result.tables.bits - scale * static_cast<double>(form.mantissa * result.some) +
                scale * 8 * static_cast<double>(result.beyond * form.size);
  return result;
}

/// Whether so many elements are zeros, of either sign, that the other planes do without them.
bool has_zeros(const Sample& sample, std::size_t size) {
  if (size < 2) return false;
  std::size_t zeros = 0;
  for (std::size_t at = 0; at < sample.elements.size(); at += size) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, sample.elements.data() + at, size);
    zeros += bits << (65 - 8 * size) == 0;
  }
  return static_cast<double>(zeros * size) >= kZeros * static_cast<double>(sample.elements.size());
}

Candidate best_candidate(const Sample& sample, std::size_t size, double scale) {
  PlanesForm form{.size = size, .zeros_apart = has_zeros(sample, size)};
  Candidate best = candidate(sample, form, 0, scale);
  if (size != 2 && size != 4) return best;
  const std::size_t count = sample.elements.size() / size;
  unsigned largest = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (!best.form.escape || best.planes[i] != static_cast<std::byte>(*best.form.escape))
      largest = std::max(largest, std::to_integer<unsigned>(best.planes[i]));
  const double worth = kWorthBits * scale * 8 * static_cast<double>(sample.elements.size());
  for (form.mantissa = 1; form.mantissa <= kMostBits; ++form.mantissa) {
    Candidate next = candidate(sample, form, std::min(largest, 255U), scale);
    if (next.bits > best.bits - worth) break;
    best = std::move(next);
  }
  return best;
}

/// The kind of a plane, and its packed size over its size.
/// @param coded  that share, coded with its tables
/// @param raw    that share, stored as bits
std::pair<Plane, double> kind_of(std::span<const std::byte> plane, double coded, double raw) {
  // zstd does not find repeats in noise.
  if (coded > kNoise) return {Plane::kRaw, raw};
  const auto sample = plane.first(std::min(plane.size(), std::size_t{1} << 18));
  const double share =
      static_cast<double>(compress_fast(sample).size()) / static_cast<double>(sample.size());
  if (share < 0.97 * coded && share < raw - kSaved) return {Plane::kZstd, share};
  if (coded < raw - kSaved) return {Plane::kCoded, coded};
  return {Plane::kRaw, raw};
}

/// Chooses the escape, or removes it where every byte has a width.
void add_escape(Candidate& best, bool whole) {
  if (whole && best.beyond == 0 && !best.form.zeros_apart) {
    best.form.escape.reset();
    return;
  }
  Counts all{};
  for (const Counts& counts : best.tables.counts)
    for (std::size_t s = 0; s < all.size(); ++s) all[s] += counts[s];
  // Elements beyond the window are already counted as escapes.
  if (best.form.mantissa == 0 && !best.form.zeros_apart) best.form.escape = rarest(all);
  for (Counts& counts : best.tables.counts) {
    ++counts[*best.form.escape];
    for (std::size_t zero = 0; best.form.zeros_apart && zero <= kMostZero; ++zero) ++counts[zero];
  }
}

}  // namespace

PlanesChoice choose_planes(std::span<const std::byte> raw, std::size_t size) {
  const Sample sample = sample_of(raw, size);
  const std::size_t count = sample.elements.size() / size;
  const double scale =
      static_cast<double>(raw.size()) / static_cast<double>(sample.elements.size());
  Candidate best = best_candidate(sample, size, scale);
  const auto plane_at = [&](std::size_t plane) {
    return std::span<const std::byte>(best.planes)
        .subspan(plane * count, plane == 0 ? count : best.some);
  };
  add_escape(best, sample.whole);
  PlanesChoice choice{.form = best.form, .bounds = best.tables.bounds};
  choice.form.run = best.tables.run;
  double shares = 0;
  for (std::size_t plane = 0; plane < size; ++plane) {
    const auto bytes = static_cast<double>(plane_at(plane).size());
    if (bytes == 0) {
      choice.kinds.push_back(Plane::kRaw);
      choice.tables.emplace_back();
      continue;
    }
    Tables tables = plane == 0 ? best.tables : one_table(plane_at(plane), scale);
    const double as_bits = plane + 1 == size ? 1 - best.form.mantissa / 8.0 : 1;
    const auto [kind, share] = kind_of(plane_at(plane), tables.bits / 8 / (scale * bytes), as_bits);
    auto& widths = choice.tables.emplace_back();
    if (kind == Plane::kCoded)
      for (const Counts& counts : tables.counts) {
        std::uint64_t total = 0;
        for (const std::uint32_t n : counts) total += n;
        widths.push_back(codec::byte_widths(counts, total));
      }
    choice.kinds.push_back(kind);
    shares += share * bytes / static_cast<double>(count);
  }
  choice.share = shares / static_cast<double>(size);
  return choice;
}

}  // namespace gbcompress
