#pragma once
/// Reading a strategy's options: every error names the strategy and the option.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gbcompress {

class OptionText {
 public:
  /// @param options  as StrategySetup has them; they outlive this
  OptionText(std::string strategy, const std::map<std::string, std::string>& options)
      : strategy_(std::move(strategy)), options_(options) {}

  bool given(const std::string& option) const { return options_.contains(option); }
  /// @throws Error(kUsage), as the others do
  double number(const std::string& option, double otherwise, double low, double high) const;
  std::int64_t whole(const std::string& option, std::int64_t otherwise, std::int64_t low,
                     std::int64_t high) const;
  std::string text(const std::string& option, const std::string& otherwise) const;
  /// Values separated by commas; empty where it is not given.
  std::vector<double> list(const std::string& option, double low, double high) const;
  std::vector<std::int64_t> whole_list(const std::string& option, std::int64_t low,
                                       std::int64_t high) const;
  /// One value for all, or one for each of `count` things; empty where it is not given.
  std::vector<double> for_each(const std::string& option, double low, double high,
                               std::size_t count, const std::string& things) const;
  [[noreturn]] void refuse(const std::string& option, const std::string& what) const;

 private:
  double parse(const std::string& option, const std::string& text, double low, double high) const;

  std::string strategy_;
  const std::map<std::string, std::string>& options_;
};

}  // namespace gbcompress
