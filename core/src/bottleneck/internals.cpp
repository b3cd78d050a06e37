#include "bottleneck/internals.h"

#include <algorithm>

#include "bottleneck/impl.h"
#include "gbcompress/error.h"

namespace gbcompress {

Group* BottleneckRanks::group(const GenomicBottleneck& bottleneck) noexcept {
  return bottleneck.impl_->ranks.group;
}

const std::vector<std::string>& BottleneckRanks::placement_notes(
    const GenomicBottleneck& bottleneck) {
  return bottleneck.impl_->ranks.notes;
}

void BottleneckRanks::predict_own_layers(GenomicBottleneck& bottleneck) {
  bottleneck.impl_->check_tensors();
  bottleneck.impl_->predict(bottleneck.impl_->ranks.with_layers);
}

void BottleneckRanks::leave_layers(GenomicBottleneck& bottleneck) {
  GenomicBottleneck::Impl& impl = *bottleneck.impl_;
  impl.ranks.with_layers = false;
  if (impl.ranks.plain.empty()) return;
  impl.gather_plain();
  impl.plain_optimizer->restore(impl.whole_plain_state());
  impl.ranks.plain.clear();
}

std::int64_t BottleneckShards::numbers(const GenomicBottleneck& bottleneck) {
  return bottleneck.impl_->shard_numbers();
}

void BottleneckShards::add(GenomicBottleneck& bottleneck, FixedSum& sum) {
  bottleneck.impl_->add_shard(sum);
}

void BottleneckShards::reduce(GenomicBottleneck& bottleneck, const FixedSum& sum, int shards) {
  bottleneck.impl_->begin_rate();
  bottleneck.impl_->reduce_shards(sum, shards);
  bottleneck.impl_->has_gradients = true;
}

std::vector<std::byte> BottleneckFile::encode(const GenomicBottleneck& bottleneck) {
  return bottleneck.impl_->file(bottleneck.impl_->options.arch).encode();
}

void BottleneckRate::refresh(GenomicBottleneck& bottleneck) {
  bottleneck.impl_->integers.expect(/*contexts=*/true);
}

std::map<std::string, double> BottleneckRate::rate(const GenomicBottleneck& bottleneck) {
  const IntegerPart& integers = bottleneck.impl_->integers;
  if (integers.tensors.empty() || !(integers.loss_per_bit > 0)) return {};
  return {{"bits", integers.quantized.latents.bits()}, {"lambda", integers.loss_per_bit}};
}

bool BottleneckIntegers::any(const GenomicBottleneck& bottleneck) noexcept {
  return !bottleneck.impl_->integers.tensors.empty();
}

void BottleneckIntegers::quantize(GenomicBottleneck& bottleneck, double step, double evenness,
                                  Quantizer quantizer) {
  bottleneck.impl_->integers.stream.reset();
  bottleneck.impl_->integers.quantized.latents.quantize(step, evenness, quantizer);
}

double BottleneckIntegers::relative_error(const GenomicBottleneck& bottleneck) {
  return bottleneck.impl_->integers.quantized.latents.relative_error();
}

double BottleneckIntegers::expected_error(const GenomicBottleneck& bottleneck, double step,
                                          double evenness) {
  return bottleneck.impl_->integers.quantized.latents.expected_error(step, evenness);
}

}  // namespace gbcompress
