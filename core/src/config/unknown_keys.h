#pragma once
/// Keys that no setting has, gathered so that one message names all of them.

#include <string>
#include <vector>

namespace gbcompress {

class UnknownKeys {
 public:
  /// @param at  where the key stands, named in the message: "run.toml:2:1"
  void add(const std::string& at, const std::string& key);
  /// A key of a [[layer]] table.
  void add_layer(const std::string& at, const std::string& key);
  bool empty() const noexcept { return lines_.empty(); }
  /// @throws Error(kConfig) with a line for each key, if there are any
  void throw_if_any() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace gbcompress
