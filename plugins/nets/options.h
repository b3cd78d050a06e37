#pragma once
/// What follows the name of an architecture: "simple-vgg:128,256:100".

#include <gbcompress/registry.h>

#include <string>
#include <vector>

namespace gbcompress::nets {

class Options {
 public:
  /// @param names  of the parts, for messages
  /// @throws Error(kUsage) for more parts
  Options(const ModelRequest& request, std::vector<std::string> names);

  /// Part `index`: 1 to `most`, separated by commas; none for an empty part. @throws Error(kUsage)
  std::vector<std::int64_t> numbers(std::size_t index, std::int64_t most) const;
  /// Part `index`, else the rows of a weight of the file, else 10. @throws Error(kUsage)
  std::int64_t classes(std::size_t index, const std::string& weight) const;
  /// Whether part `index` is "plain", or a file of weights lacks the norm's. @throws Error(kUsage)
  bool is_plain(std::size_t index, const std::string& norm) const;

 private:
  [[noreturn]] void refuse(std::size_t index, const std::string& rule) const;

  const ModelRequest& request_;
  std::vector<std::string> names_, parts_;
};

/// Of the convolutions of simple-vgg: of the options, else of the weights, else the usual ones.
/// @throws Error(kUsage)
std::vector<std::int64_t> channels_of(const ModelRequest& request, const Options& options);

}  // namespace gbcompress::nets
