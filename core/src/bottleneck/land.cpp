// The last choice of integers, for a file of the target size.
#include "search/land.h"

#include "bottleneck/impl.h"

namespace gbcompress {

void GenomicBottleneck::Impl::land(std::int64_t wanted) {
  gbcompress::land(wanted, [&](double lambda) {
    choose_integers(lambda);
    return bytes();
  });
}

}  // namespace gbcompress
