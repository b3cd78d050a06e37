// A run that was killed is continued by the same call, with the matrices that it had encoded.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gbcompress/artifact.h"
#include "gbcompress/error.h"
#include "gbcompress/weights.h"
#include "quantize/kept_parts.h"
#include "quantize/matrix.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
using testing::MadeTensors;
using testing::normals;

/// More integers than a file of profile small has.
const MadeTensors& large_model() {
  static const MadeTensors made = [] {
    MadeTensors tensors;
    tensors.add("a.weight", {2000, 1000}, normals(2'000'000, 1));
    tensors.add("b.weight", {1500, 1000}, normals(1'500'000, 2, 0.1f));
    tensors.add("c.bias", {300}, normals(300, 3));
    tensors.add("d.weight", {900, 1000}, normals(900'000, 4));
    tensors.sorted();
    return tensors;
  }();
  return made;
}

WeightsOptions kept_options(double error) {
  return {.max_error = error,
          .quantizer = Quantizer::kNearest,
          .overwrite = true,
          .parts_from = 1,
          .threads = 1};
}

/// A process that is gone before its file appears: all matrices are encoded.
void run_killed(const fs::path& output, const WeightsOptions& base) {
  const pid_t child = ::fork();
  if (child == 0) {
    WeightsOptions options = base;
    options.look = [](const ArtifactReader&) { ::_exit(9); };
    compress_weights(large_model().bundle, output, options);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 9);
  ASSERT_FALSE(fs::exists(output));
  ASSERT_TRUE(fs::exists(output.string() + ".parts"));
}

struct Ended {
  std::string identity;
  std::int64_t chosen;  ///< integers, of samples too
};
Ended ended(const fs::path& output, const WeightsOptions& options) {
  const std::int64_t before = StepMatrix::values_chosen();
  const WeightsReport report = compress_weights(large_model().bundle, output, options);
  EXPECT_FALSE(fs::exists(output.string() + ".parts")) << "nothing stays beside the file";
  return {report.identity, StepMatrix::values_chosen() - before};
}

TEST(Resumed, TheSameCallContinues) {
  for (const bool by_size : {false, true}) {
    const testing::TempDir folder;
    WeightsOptions options = kept_options(0.01);
    if (by_size) {
      options.max_error.reset();
      options.max_bytes = 1'700'000;
    } else {
      options.quantizer = Quantizer::kTrellis;
    }
    const Ended whole = ended(folder / "whole.gbz", options);
    run_killed(folder / "m.gbz", options);
    const Ended resumed = ended(folder / "m.gbz", options);
    EXPECT_EQ(resumed.identity, whole.identity);
    EXPECT_LT(resumed.chosen, whole.chosen - 4'000'000) << "no matrix is chosen again";
  }
}

TEST(Resumed, AnotherCallBeginsAnew) {
  const testing::TempDir folder;
  const Ended whole = ended(folder / "whole.gbz", kept_options(0.02));
  run_killed(folder / "m.gbz", kept_options(0.01));
  const Ended other = ended(folder / "m.gbz", kept_options(0.02));
  EXPECT_EQ(other.identity, whole.identity);
  EXPECT_EQ(other.chosen, whole.chosen);
}

TEST(Resumed, DamagedPartsAreMadeAnew) {
  const testing::TempDir folder;
  const WeightsOptions options = kept_options(0.01);
  const Ended whole = ended(folder / "whole.gbz", options);
  run_killed(folder / "m.gbz", options);
  const fs::path parts = folder / "m.gbz.parts";
  const auto good = testing::get_file(parts);
  const auto size = static_cast<std::int64_t>(good.size());
  std::vector<std::string> damaged;
  for (const std::int64_t cut : {std::int64_t{0}, std::int64_t{39}, size / 3})
    damaged.push_back(good.substr(0, static_cast<std::size_t>(cut)));
  for (const std::size_t at : {8, 24, 36, 45, 3000}) {
    damaged.push_back(good);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 0x81);
  }
  for (const std::string& bytes : damaged) {
    testing::put_file(parts, bytes);
    EXPECT_EQ(ended(folder / "m.gbz", options).identity, whole.identity);
  }
}

TEST(Resumed, StoppedOnRequest) {
  const testing::TempDir folder;
  WeightsOptions options = kept_options(0.01);
  const Ended whole = ended(folder / "whole.gbz", options);
  options.look = [](const ArtifactReader&) {
    throw Error(Errc::kInterrupted, "stopped on request; nothing was written");
  };
  try {
    compress_weights(large_model().bundle, folder / "m.gbz", options);
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kInterrupted);
    EXPECT_NE(std::string(error.what()).find("the same call continues with"), std::string::npos);
  }
  EXPECT_TRUE(fs::exists(folder / "m.gbz.parts"));
  // Another failure keeps nothing.
  options.look = [](const ArtifactReader&) { throw Error(Errc::kIo, "full"); };
  EXPECT_THROW(compress_weights(large_model().bundle, folder / "m.gbz", options), Error);
  EXPECT_FALSE(fs::exists(folder / "m.gbz.parts"));
  EXPECT_EQ(ended(folder / "m.gbz", kept_options(0.01)).identity, whole.identity);
}

TEST(Resumed, WhatAnotherProcessHasIsLeftAlone) {
  const testing::TempDir folder;
  const fs::path parts = folder / "m.gbz.parts";
  const int held = ::open(parts.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  EXPECT_FALSE(KeptParts(parts).active());
  compress_weights(large_model().bundle, folder / "m.gbz", kept_options(0.01));
  EXPECT_TRUE(fs::exists(parts));
  ::close(held);
  fs::remove(parts);
  // A link is not followed.
  testing::put_file(folder / "other", "0123456789");
  fs::create_symlink(folder / "other", parts);
  compress_weights(large_model().bundle, folder / "m.gbz", kept_options(0.01));
  EXPECT_EQ(testing::get_file(folder / "other"), "0123456789");
}

TEST(Resumed, SmallModelsKeepNothing) {
  const testing::TempDir folder;
  WeightsOptions options = kept_options(0.01);
  options.parts_from = 5'000'000;
  options.look = [&](const ArtifactReader&) { EXPECT_FALSE(fs::exists(folder / "m.gbz.parts")); };
  compress_weights(large_model().bundle, folder / "m.gbz", options);
}

}  // namespace
}  // namespace gbcompress
