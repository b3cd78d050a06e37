#include "artifact/expansion.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "artifact/file_digest.h"
#include "artifact/read_many.h"
#include "base/parallel.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Of tensors that are decoded ahead of the one that is written.
constexpr std::int64_t kAheadBytes = std::int64_t{128} << 20;
/// Of stripes, whose buffers shall stay in caches.
constexpr std::int64_t kAheadInStripes = std::int64_t{32} << 20;

/// All types first, so that a missing plugin is told before any work.
std::vector<TileBuilder> builders_of(const ArtifactReader& artifact, const DecodeOptions& options) {
  std::vector<TileBuilder> builders;
  for (const ArtifactTensor& tensor : artifact.tensors())
    builders.push_back(!has_spec(tensor.kind) ? TileBuilder()
                       : options.builder      ? options.builder(tensor)
                                              : place_only(tensor));
  return builders;
}

}  // namespace

Expansion::Expansion(const ArtifactReader& artifact, std::vector<std::size_t> order,
                     const DecodeOptions& options)
    : artifact_(artifact), tensors_(order.size()) {
  if (order.empty()) artifact.check_digest();
  const auto& tensors = artifact.tensors();
  const int threads = options.threads > 0 ? options.threads : usable_processors();
  const bool apart = decodes_apart(artifact);
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < tensors.size(); ++i) index[tensors[i].name] = i;
  for (std::size_t& i : order)
    if (tensors[i].kind == TensorKind::kTied) i = index.at(tensors[i].tied_to);
  auto made = std::make_shared<std::vector<TileBuilder>>(
      blame_damage(artifact, [&] { return builders_of(artifact, options); }));
  const DecodeOptions one{
      .builder =
          [made, &artifact](const ArtifactTensor& tensor) {
            return (*made)[static_cast<std::size_t>(&tensor - artifact.tensors().data())];
          },
      .base = options.base,
      .threads = apart ? 1 : threads};
  blame_damage(artifact, [&] {
    parts_.emplace(artifact, order,
                   [&artifact, one](std::size_t i) { return decode_elements(artifact, i, one); });
  });
  if (apart && threads > 1)
    ahead_.emplace(threads, parts_->sizes(),
                   artifact.lanes() || parts_->in_stripes() ? kAheadInStripes : kAheadBytes,
                   [this](std::size_t n) { return parts_->make(n); });
}

void Expansion::give(const std::function<void(std::span<const std::byte>)>& sink) {
  for (std::size_t left = parts_->parts(tensor_++); left > 0; --left, ++part_) {
    throw_if_interrupted();
    current_.reset();  // before the next one
    current_.emplace(ahead_ ? ahead_->next() : parts_->make(part_));
    sink(current_->bytes());
  }
}

void Expansion::next(const std::function<void(std::span<const std::byte>)>& sink) {
  blame_damage(artifact_, [&] { give(sink); });
  if (tensor_ == tensors_) artifact_.check_digest();
}

}  // namespace gbcompress
