#pragma once
/// Training runs at one price of a bit after another, for a size or a loss of quality.

#include "compress/search.h"

namespace gbcompress {

/// For jobs that search a price. [collective]
Outcome price_attempts(Job& job);

}  // namespace gbcompress
