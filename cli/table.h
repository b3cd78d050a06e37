#pragma once
/// Aligned columns of text.

#include <cstdint>
#include <string>
#include <vector>

namespace gbcompress::cli {

inline constexpr std::size_t kTableColumns = 100;

class Table {
 public:
  /// @param left  how many of the first columns are aligned to the left; the others to the right
  explicit Table(std::size_t left = 1) : left_(left) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// A row without an original whose last cell is a sentence: it takes as many rows as it needs.
  void sentence(const std::string& label, const std::string& text);
  /// Lines without spaces at their ends, of at most `columns`: long cells, names as a rule, are cut
  /// in the middle.
  std::string text(std::size_t columns = kTableColumns) const;

 private:
  std::size_t left_;
  std::vector<std::vector<std::string>> rows_;
};

/// At most so many characters of UTF-8 text: "transformer.h.1...attn.c_proj.weight".
std::string cut_in_middle(const std::string& text, std::size_t characters);
/// "a, b and c"
std::string listed(const std::vector<std::string>& names);
std::string with_commas(std::int64_t number);                    ///< "1,066,912"
std::string fixed(double number, int digits);                    ///< "20.08"
std::string short_number(double number);                         ///< "0.015": three digits
std::string shape_text(const std::vector<std::int64_t>& shape);  ///< "300x784", "scalar"
/// "1.2 GB", in powers of 1000.
std::string rough_bytes(std::int64_t bytes);

}  // namespace gbcompress::cli
