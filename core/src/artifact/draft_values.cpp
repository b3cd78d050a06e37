#include "artifact/draft_values.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "artifact/header/header.h"
#include "artifact/read_many.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr auto kNoPlace = static_cast<std::size_t>(-1);

}  // namespace

DraftValues::DraftValues(ArtifactReader draft, const std::vector<ArtifactTensor>& rest,
                         const std::string& label)
    : reader_(std::move(draft)), apart_(decodes_apart(reader_)) {
  const auto& tensors = reader_.tensors();
  std::unordered_map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < tensors.size(); ++i) index.emplace(tensors[i].name, i);
  for (const ArtifactTensor& tensor : rest) {
    const auto found = index.find(tensor.name);
    const bool fits = found != index.end() && tensors[found->second].dtype == tensor.dtype &&
                      tensors[found->second].shape == tensor.shape;
    if (needs_base(tensor) && !fits)
      throw Error(Errc::kCorrupt, label + ": the draft has no tensor " + printable(tensor.name) +
                                      " of the type and shape that the exact part says");
    places_.push_back(fits ? found->second : kNoPlace);
  }
}

DecodedTensor DraftValues::decode(std::size_t tensor, int threads) const {
  const auto decoded = [&] {
    return decode_elements(reader_, places_[tensor], {.threads = threads});
  };
  if (apart_) return decoded();
  const std::lock_guard lock(mutex_);
  return decoded();
}

}  // namespace gbcompress
