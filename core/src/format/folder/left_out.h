#pragma once
/// What a file holds beside the model, in one line.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gbcompress {

struct LeftOut {
  std::string name;
  std::size_t tensors = 0;
  std::int64_t bytes = 0;    ///< of the tensors
  std::string made_by = {};  ///< of an object: its class
};

/// The most bytes first, then by name.
void sort_left_out(std::vector<LeftOut>& list);

/// "optimizer (517 tensors, 3.2 MB), args (argparse.Namespace), epoch and 4 more"
std::string left_out_text(const std::vector<LeftOut>& list);

/// "unet, vae" with control characters escaped; at most eight are named.
std::string names_text(const std::vector<std::string>& names);

}  // namespace gbcompress
