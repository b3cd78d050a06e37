#pragma once
/// Elements bit for bit as integers beside a table of exact numbers: few distinct values, or small
/// integers times factors that blocks of the tensor share (docs/reference/artifact-integers.md).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"

namespace gbcompress {

/// What the numbers of a header's key say: [palette], [block rows, block columns, negative
/// zero] or [positions, stride].
/// Of other numbers a form that no tensor has.
LevelForm level_form(std::span<const std::int64_t> numbers, DType dtype) noexcept;
/// Whether a tensor of that grid and type may have the form.
bool fits_levels(const LevelForm& form, const IntegerGrid& grid, DType dtype) noexcept;
/// The grid of the table: a row for each four bits of its numbers, a column for each number.
IntegerGrid level_grid(const LevelForm& form, const IntegerGrid& grid) noexcept;
/// The table's integers. @param numbers  elements of the palette or bits of float32 factors
std::vector<std::int32_t> level_table(const LevelForm& form,
                                      std::span<const std::uint64_t> numbers);
/// The column of the table that holds the factor of an element.
std::size_t level_block(const LevelForm& form, const IntegerGrid& grid, std::int64_t row,
                        std::int64_t col) noexcept;

/// @throws Error(kUsage) for values that no file may hold
void check_levels(const CodedValues& values, const std::string& label);
/// Bytes of the tensor. @throws Error(kCorrupt) for a table that holds no bytes and an integer
/// without an element; Error(kUsage) as check_levels()
std::vector<std::byte> level_elements(const CodedValues& values);

}  // namespace gbcompress
