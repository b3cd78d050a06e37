#include "gbcompress/codec.h"

namespace gbcompress {

std::string_view profile_name(CodecProfile profile) noexcept {
  return profile == CodecProfile::kSmall ? "small" : "fast";
}

}  // namespace gbcompress
