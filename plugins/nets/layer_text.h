#pragma once
/// Layers as PyTorch's constructors are called: "Conv2d(1,32,5,padding=2)".

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gbcompress::nets {

/// The parts of `text` between separators that are not within parentheses.
std::vector<std::string> split_outside(std::string_view text, char separator);
/// 1x28x28 of "1x28x28". @throws Error(kUsage) unless each is 1 to 1,048,576
std::vector<std::int64_t> shape_of(const std::string& text, const std::string& what);

/// One layer's arguments, by position or by name. Every error names the layer.
class LayerText {
 public:
  using Pair = std::vector<std::int64_t>;  ///< of rows and columns

  /// @param number  of the layer in the chain, from 0
  /// @throws Error(kUsage), as the others do
  LayerText(std::string_view text, std::size_t number);

  const std::string& type() const noexcept { return type_; }
  /// "layer 2 (Conv2d)"
  std::string where() const;
  /// Names of the arguments, in their order. Called before any of them is read.
  /// @param needed  so many of them have no default
  void takes(std::vector<std::string> names, std::size_t needed);
  bool given(const std::string& name) const { return values_.contains(name); }
  std::int64_t whole(const std::string& name, std::int64_t otherwise, std::int64_t low) const;
  /// "3", or "3x5".
  Pair pair(const std::string& name, const Pair& otherwise, std::int64_t low) const;
  double real(const std::string& name, double otherwise) const;
  bool flag(const std::string& name, bool otherwise) const;  ///< "True" or "False"
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::string type_;
  std::size_t number_;
  std::vector<std::string> arguments_;
  std::map<std::string, std::string> values_;
};

}  // namespace gbcompress::nets
