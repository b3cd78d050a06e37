#pragma once
/// The IDX files of samples/digits, part of the library.

#include <cstddef>
#include <span>

namespace gbcompress {

struct DigitsFiles {
  std::span<const std::byte> train_images, train_labels, test_images, test_labels;
};
DigitsFiles digits_files();

}  // namespace gbcompress
