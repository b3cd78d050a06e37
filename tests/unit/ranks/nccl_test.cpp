#include <gtest/gtest.h>

#include "ranks/backends/nccl_place.h"

namespace gbcompress {
namespace {

TEST(NcclVersion, IsReadFromBothKindsOfCode) {
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(nccl_version_text(23007), "2.30.7");
  EXPECT_EQ(nccl_version_text(2708), "2.7.8");
  EXPECT_EQ(nccl_version_text(30100), "3.1.0");
}

TEST(NcclVersion, AnOlderMinorOneOrAnotherMajorOneDoesNotFit) {
  for (const int fits : {22809, 22800, 22812, 23007, 29900})
    EXPECT_EQ(nccl_mismatch(22809, fits), "") << fits;
  for (const int wrong : {22707, 2708, 30100, 12900, 0})
    EXPECT_NE(nccl_mismatch(22809, wrong), "") << wrong;
  const std::string said = nccl_mismatch(22809, 22707);
  EXPECT_NE(said.find("2.27.7"), said.npos) << said;
  EXPECT_NE(said.find("a library of 2.28 or later"), said.npos) << said;
}

}  // namespace
}  // namespace gbcompress
