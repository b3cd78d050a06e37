#include "data/digits_files.h"

// The assembler copies the files in; a table of numbers for the compiler would be ten times as
// long.
#define GBC_EMBED(symbol, file)                                                  \
  asm(".pushsection .rodata\n"                                                   \
      ".hidden " #symbol "_begin\n.globl " #symbol "_begin\n" #symbol            \
      "_begin:\n"                                                                \
      ".incbin \"" GBC_DIGITS_DIR "/" file                                       \
      "\"\n"                                                                     \
      ".hidden " #symbol "_end\n.globl " #symbol "_end\n" #symbol                \
      "_end:\n"                                                                  \
      ".popsection\n");                                                          \
  extern "C" {                                                                   \
  __attribute__((visibility("hidden"))) extern const std::byte symbol##_begin[]; \
  __attribute__((visibility("hidden"))) extern const std::byte symbol##_end[];   \
  }

GBC_EMBED(gbc_digits_train_images, "train-images-idx3-ubyte")
GBC_EMBED(gbc_digits_train_labels, "train-labels-idx1-ubyte")
GBC_EMBED(gbc_digits_test_images, "test-images-idx3-ubyte")
GBC_EMBED(gbc_digits_test_labels, "test-labels-idx1-ubyte")

namespace gbcompress {

DigitsFiles digits_files() {
  return {{gbc_digits_train_images_begin, gbc_digits_train_images_end},
          {gbc_digits_train_labels_begin, gbc_digits_train_labels_end},
          {gbc_digits_test_images_begin, gbc_digits_test_images_end},
          {gbc_digits_test_labels_begin, gbc_digits_test_labels_end}};
}

}  // namespace gbcompress
