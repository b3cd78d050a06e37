#include <ATen/ATen.h>

#include "data/pixels.h"
#include "data/sources.h"
#include "format/dataset/idx.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// The file under the name that MNIST's site gives it, or that its unpackers make of it.
std::filesystem::path find(const std::filesystem::path& folder, const std::string& part,
                           const std::string& what, int rank) {
  const std::string ending = "idx" + std::to_string(rank) + "-ubyte";
  for (const char* separator : {"-", "."})
    for (const char* packed : {"", ".gz"}) {
      const auto file = folder / (part + "-" + what + separator + ending + packed);
      if (std::filesystem::exists(file)) return file;
    }
  throw Error(Errc::kNotFound, printable(folder.string()) + " holds no " + part + "-" + what + "-" +
                                   ending +
                                   " (nor with .gz); `data` mnist:DIR needs the folder "
                                   "of the four MNIST files");
}

Dataset open_part(const std::filesystem::path& folder, const std::string& part,
                  const DataOptions& options) {
  const auto image_file = find(folder, part, "images", 3),
             label_file = find(folder, part, "labels", 1);
  const IdxArray images = read_idx(image_file), labels = read_idx(label_file);
  if (images.shape.size() != 3 || labels.shape.size() != 1)
    throw Error(Errc::kShapeMismatch, printable(image_file.string()) +
                                          " must have 3 dimensions and " +
                                          printable(label_file.filename().string()) +
                                          " 1; they have " + std::to_string(images.shape.size()) +
                                          " and " + std::to_string(labels.shape.size()));
  if (images.shape[0] != labels.shape[0] || images.values.empty())
    throw Error(Errc::kShapeMismatch,
                printable(image_file.string()) + " holds " + std::to_string(images.shape[0]) +
                    " images, " + printable(label_file.filename().string()) + " " +
                    std::to_string(labels.shape[0]) + " labels; they must be as many, and some");
  return Dataset(to_inputs(images.values, {images.shape[0], 1, images.shape[1], images.shape[2]},
                           255, normalisation(options, {{0}, {1}})),
                 to_targets(labels.values));
}

}  // namespace

Data open_mnist(const std::string& where, const DataOptions& options) {
  Data data{"", open_part(where, "train", options), open_part(where, "t10k", options)};
  data.classes = 10;
  // Sets of the same format may have more classes (letters); fewer than ten is still MNIST.
  for (const Dataset* split : {&data.train, &data.test}) {
    const at::Tensor targets = split->everything().targets;
    data.classes = std::max(data.classes, targets.max().item<std::int64_t>() + 1);
  }
  return data;
}

}  // namespace gbcompress
