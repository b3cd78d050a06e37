#include <charconv>

#include "gbcompress/error.h"
#include "gbcompress/train.h"
#include "statistics/synthetic.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kLongestSide = 1 << 16;

/// "3x224x224"
std::vector<std::int64_t> parse_shape(std::string_view text, const std::string& spec) {
  std::vector<std::int64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    const auto [stop, error] = std::from_chars(at, end, shape.emplace_back());
    const bool good = error == std::errc() && shape.back() >= 1 && shape.back() <= kLongestSide;
    if (good && stop == end) return shape;
    if (!good || *stop != 'x' || shape.size() > 4)
      throw Error(Errc::kUsage, "`data` " + printable(spec) +
                                    ": write the shape of one input, such as synthetic:3x224x224");
    at = stop + 1;
  }
}

}  // namespace

Data synthetic_data(Model& model, const std::string& spec, std::uint64_t seed,
                    const ProgressSink& progress) {
  const std::size_t colon = spec.find(':');
  std::vector<std::int64_t> shape;
  if (colon != std::string::npos)
    shape = parse_shape(std::string_view(spec).substr(colon + 1), spec);
  Data data = fit_inputs(model, std::move(shape), seed,
                         [&](std::int64_t done, std::int64_t total, double distance) {
                           if (progress) progress({"fit inputs", done, total, distance});
                         });
  data.spec = spec;
  data.metric = Metric::kOutputError;
  return data;
}

}  // namespace gbcompress
