#include <gtest/gtest.h>

#include "gbcompress/codec.h"

namespace gbcompress {
namespace {

TEST(Profile, HasTheNameThatSettingsUse) {
  EXPECT_EQ(profile_name(CodecProfile::kSmall), "small");
  EXPECT_EQ(profile_name(CodecProfile::kLanes), "lanes");
}

}  // namespace
}  // namespace gbcompress
