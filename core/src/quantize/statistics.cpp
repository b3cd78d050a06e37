#include "gbcompress/statistics.h"

#include <array>
#include <cmath>
#include <string_view>

#include "artifact/sections/elements.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Member = std::vector<float> TensorStatistics::*;
struct Kind {
  std::string_view suffix;
  Member member;
};
constexpr std::array kKinds{Kind{".input_moment", &TensorStatistics::input_moment},
                            Kind{".output_moment", &TensorStatistics::output_moment},
                            Kind{".input_mean", &TensorStatistics::input_mean},
                            Kind{".row_importance", &TensorStatistics::row_importance}};

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// @throws Error(kShapeMismatch)
void check_shape(const TensorEntry& entry, const Kind& kind) {
  const auto& shape = entry.shape;
  const std::size_t rank = shape.size();
  const bool square = rank >= 2 && shape[rank - 1] == shape[rank - 2];
  const bool fits = kind.member == &TensorStatistics::input_moment    ? square && rank <= 3
                    : kind.member == &TensorStatistics::output_moment ? square && rank == 2
                    : kind.member == &TensorStatistics::input_mean    ? rank == 1 || rank == 2
                                                                      : rank == 1;
  if (!fits || tensor_elements(shape) == 0)
    throw Error(Errc::kShapeMismatch,
                "statistics " + printable(entry.name) + ": the shape " + text_of(shape) +
                    " is none of a moment ([n, n], or [groups, n, n] of inputs), a mean ([n]) or "
                    "an importance ([rows])");
}

}  // namespace

Statistics read_statistics(const TensorBundle& file) {
  Statistics statistics;
  for (const TensorEntry& entry : file.tensors) {
    const Kind* found = nullptr;
    for (const Kind& kind : kKinds)
      if (entry.name.ends_with(kind.suffix) && entry.name.size() > kind.suffix.size())
        found = &kind;
    if (!found)
      throw Error(Errc::kUsage,
                  "statistics: the tensor " + printable(entry.name) +
                      " is none of NAME.input_moment, NAME.output_moment, NAME.input_mean and "
                      "NAME.row_importance");
    if (!is_real(entry.dtype))
      throw Error(Errc::kUsage, "statistics " + printable(entry.name) + ": element type " +
                                    std::string(dtype_name(entry.dtype)) + "; use F32");
    check_shape(entry, *found);
    std::vector<float> values(static_cast<std::size_t>(tensor_elements(entry.shape)));
    floats_of(entry.bytes, entry.dtype, values);
    for (const float value : values)
      if (!std::isfinite(value) ||
          (value < 0 && found->member == &TensorStatistics::row_importance))
        throw Error(Errc::kNonFinite,
                    "statistics " + printable(entry.name) + " holds " +
                        (std::isfinite(value) ? "a negative importance" : "NaN or infinity") +
                        "; measure it again without such samples");
    TensorStatistics& of =
        statistics.tensors[entry.name.substr(0, entry.name.size() - found->suffix.size())];
    of.*found->member = std::move(values);
    if (found->member == &TensorStatistics::input_moment && entry.shape.size() == 3)
      of.groups = entry.shape[0];
  }
  return statistics;
}

}  // namespace gbcompress
