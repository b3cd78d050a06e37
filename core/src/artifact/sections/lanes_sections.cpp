#include "artifact/sections/lanes_sections.h"

#include "artifact/integers/integers.h"
#include "codec/lanes/stream.h"

namespace gbcompress {

LanesSections::LanesSections(const std::vector<ArtifactTensor>& tensors, const Load& load,
                             const std::filesystem::path& folder, int threads) {
  if (!folder.empty()) spool_ = std::make_unique<Spool>(folder);
  const auto for_grids = [&](const Visit& visit) {
    for (std::size_t t = 0; t < tensors.size(); ++t)
      if (in_stripes(tensors[t])) load(t, visit);
  };
  codec::lanes::Survey survey;
  for_grids([&](const IntegerGrid& grid, const codec::lanes::Blocks& blocks) {
    survey.add(grid, blocks, threads);
  });
  head_ = survey.finish();
  const auto keep = [&](const std::vector<std::byte>& stripe) {
    sizes_.push_back(static_cast<std::int64_t>(stripe.size()));
    stripe_bytes_ += sizes_.back();
    if (spool_)
      spool_->append(stripe);
    else
      held_.insert(held_.end(), stripe.begin(), stripe.end());
  };
  codec::lanes::StripeWriter writer(survey, threads);
  for_grids([&](const IntegerGrid& grid, const codec::lanes::Blocks& blocks) {
    writer.add(grid, blocks, keep);
  });
  writer.flush(keep);
}

void LanesSections::emit(const std::function<void(std::span<const std::byte>)>& sink) const {
  sink(head_);
  if (spool_)
    spool_->read(0, stripe_bytes_, sink);
  else
    sink(held_);
}

}  // namespace gbcompress
