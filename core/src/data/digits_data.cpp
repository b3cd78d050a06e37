#include <ATen/ATen.h>

#include "data/digits_files.h"
#include "data/pixels.h"
#include "data/sources.h"

namespace gbcompress {
namespace {

constexpr std::size_t kImagesHeader = 16, kLabelsHeader = 8;
constexpr std::int64_t kPixels = 64;

/// The files are the project's own; only their headers are skipped.
Dataset to_dataset(std::span<const std::byte> images, std::span<const std::byte> labels,
                   const Normalisation& by) {
  images = images.subspan(kImagesHeader);
  labels = labels.subspan(kLabelsHeader);
  const auto n = static_cast<std::int64_t>(labels.size());
  at::Tensor inputs = to_inputs(images, {n, 1, kPixels}, 16, by);
  return Dataset(inputs.view({n, kPixels}), to_targets(labels));
}

}  // namespace

Data open_digits(const std::string&, const DataOptions& options) {
  const Normalisation by = normalisation(options, {{0}, {1}});
  const DigitsFiles files = digits_files();
  return {"", to_dataset(files.train_images, files.train_labels, by),
          to_dataset(files.test_images, files.test_labels, by), Metric::kAccuracy, 10};
}

}  // namespace gbcompress
