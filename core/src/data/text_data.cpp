#include <ATen/ATen.h>

#include <array>

#include "base/file.h"
#include "data/sources.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;

/// Windows of `context` characters every `stride` characters, each with the characters that follow;
/// views of the tokens, not copies.
Dataset windows(const at::Tensor& tokens, std::int64_t context, std::int64_t stride) {
  const std::int64_t n = tokens.size(0);
  return Dataset(tokens.narrow(0, 0, n - 1).unfold(0, context, stride),
                 tokens.narrow(0, 1, n - 1).unfold(0, context, stride));
}

}  // namespace

Data open_text(const std::string& where, const DataOptions& options) {
  const std::int64_t context = options.context;
  if (context < 1 || context > 65'536)
    throw Error(Errc::kUsage,
                "a context of " + std::to_string(context) + " characters is outside 1 to 65536");
  if (!options.mean.empty() || !options.std.empty())
    throw Error(Errc::kUsage, "text has no mean and std; leave them out");
  const std::vector<std::byte> text = read_file(where, kMaxText);
  const auto length = static_cast<std::int64_t>(text.size());
  const std::int64_t kept = length / 10 * 9 + length % 10 * 9 / 10;
  if (length - kept < context + 1)
    throw Error(Errc::kUsage,
                printable(where) + " has " + std::to_string(length) +
                    " characters; its last tenth must hold more than the context of " +
                    std::to_string(context));
  // A character's number is its place among those that occur.
  std::array<std::int64_t, 256> number{};
  for (std::byte c : text) number[std::to_integer<std::size_t>(c)] = 1;
  std::int64_t classes = 0;
  for (std::int64_t& n : number) n = n ? classes++ : 0;

  at::Tensor tokens = at::empty({length}, at::kLong);
  auto* out = tokens.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < text.size(); ++i)
    out[i] = number[std::to_integer<std::size_t>(text[i])];
  return {"", windows(tokens.narrow(0, 0, kept), context, std::max<std::int64_t>(1, context / 2)),
          windows(tokens.narrow(0, kept, length - kept), context, context), Metric::kNatsPerChar,
          classes};
}

}  // namespace gbcompress
