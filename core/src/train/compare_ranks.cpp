#include "train/compare_ranks.h"

#include <ATen/ATen.h>

#include "base/digest.h"
#include "bottleneck/internals.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"

namespace gbcompress {
namespace {

std::string digest_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kCPU).contiguous();
  return std::to_string(
      xxh3_64({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()}));
}

}  // namespace

void compare_ranks(const GenomicBottleneck& bottleneck, std::int64_t steps) {
  Group* const group = BottleneckRanks::group(bottleneck);
  if (!group) return;
  std::vector<Fact> facts;
  std::string all;
  for (const std::size_t t : BottleneckRanks::on_every_rank(bottleneck)) {
    const NamedParameter& p = bottleneck.tensors()[t];
    facts.push_back({p.info.name + " after step " + std::to_string(steps), digest_of(p.tensor),
                     "every rank computes it from the same numbers, so that processors, libraries "
                     "or memory differ: start all ranks on machines of one kind, or one rank "
                     "alone"});
    all += facts.back().value + " ";
  }
  const std::vector<std::string> digests = group->all_gather(all);
  for (const std::string& digest : digests) {
    if (digest == digests.front()) continue;
    try {
      group->agree(facts);
    } catch (const Error& error) {
      throw Error(error.code() == Errc::kUsage ? Errc::kFailure : error.code(), error.what());
    }
  }
}

}  // namespace gbcompress
