#include "compress/methods/method.h"

#include "compress/methods/methods.h"
#include "gbcompress/error.h"

namespace gbcompress {

std::unique_ptr<CompressionMethod> make_method(Method method) {
  switch (method) {
    case Method::kExact:
      return std::make_unique<ExactMethod>();
    case Method::kDataFree:
      return std::make_unique<DataFreeMethod>();
    case Method::kCalibrated:
      return std::make_unique<CalibratedMethod>();
    case Method::kFixedRate:
      return std::make_unique<FixedRateMethod>();
    case Method::kRateSearch:
      return std::make_unique<RateSearchMethod>();
    case Method::kGnetSize:
      return std::make_unique<GnetSizeMethod>();
  }
  throw Error(Errc::kFailure, "method without a class");
}

}  // namespace gbcompress
