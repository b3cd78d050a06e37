#include <ATen/ATen.h>

#include "data/pixels.h"
#include "data/sources.h"
#include "format/dataset/cifar.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Files = std::vector<std::filesystem::path>;

/// `name` or `name`.gz in the folder, or nothing.
Files present(const std::filesystem::path& folder, const std::string& name) {
  for (const auto& file : {folder / name, folder / (name + ".gz")})
    if (std::filesystem::exists(file)) return {file};
  return {};
}

/// Training files, then test files; no test file where only one was given.
std::pair<Files, Files> find(const std::string& where) {
  if (!std::filesystem::is_directory(where)) {
    const auto comma = where.find(',');
    if (comma == std::string::npos) return {{where}, {}};
    return {{where.substr(0, comma)}, {where.substr(comma + 1)}};
  }
  Files train = present(where, "train.bin"), test = present(where, "test.bin");
  if (train.empty() && test.empty()) {
    for (int i = 1; i <= 5; ++i)
      for (auto& file : present(where, "data_batch_" + std::to_string(i) + ".bin"))
        train.push_back(file);
    test = present(where, "test_batch.bin");
  }
  if (train.empty() || test.empty())
    throw Error(Errc::kNotFound,
                printable(where) +
                    " holds neither train.bin and test.bin nor data_batch_1.bin and "
                    "test_batch.bin (each may end in .gz)");
  return {train, test};
}

CifarRecords read_all(const Files& files) {
  CifarRecords all;
  for (const auto& file : files) {
    CifarRecords one = read_cifar10(file);
    all.labels.insert(all.labels.end(), one.labels.begin(), one.labels.end());
    all.pixels.insert(all.pixels.end(), one.pixels.begin(), one.pixels.end());
  }
  return all;
}

Dataset to_dataset(std::span<const std::uint8_t> labels, std::span<const std::byte> pixels,
                   const Normalisation& by) {
  const auto n = static_cast<std::int64_t>(labels.size());
  return Dataset(to_inputs(pixels, {n, 3, 32, 32}, 255, by), to_targets(std::as_bytes(labels)));
}

}  // namespace

Data open_cifar10(const std::string& where, const DataOptions& options) {
  const Normalisation by = normalisation(options, {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}});
  const auto [train_files, test_files] = find(where);
  const CifarRecords train = read_all(train_files);
  std::span<const std::uint8_t> labels = train.labels;
  std::span<const std::byte> pixels = train.pixels;
  if (!test_files.empty()) {
    const CifarRecords test = read_all(test_files);
    return {"", to_dataset(labels, pixels, by), to_dataset(test.labels, test.pixels, by),
            Metric::kAccuracy, 10};
  }
  const std::size_t held = labels.size() / 5, kept = labels.size() - held;
  if (held == 0)
    throw Error(Errc::kUsage, printable(where) +
                                  " holds fewer than 5 images; of one file the last fifth is held "
                                  "out, so give a test file too: cifar10:TRAIN,TEST");
  return {"", to_dataset(labels.first(kept), pixels.first(kept * kCifarPixels), by),
          to_dataset(labels.last(held), pixels.last(held * kCifarPixels), by), Metric::kAccuracy,
          10};
}

}  // namespace gbcompress
