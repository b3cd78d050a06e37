#include "plugin/digest_file.h"

#include "base/digest.h"
#include "gbcompress/registry.h"
#include "plugin/probe.h"
#include "support/files.h"

#include <csignal>
#include <cstdlib>

namespace gbcompress {
namespace {

using testing::put_file;
using testing::TempDir;

const std::string kDigest = to_hex(sha256(testing::to_bytes("library")));

TEST(PluginManifest, NamesTheBytes) {
  const TempDir folder;
  const auto file = folder / "row.so";
  EXPECT_EQ(digest_path(file).filename(), "row.so.sha256");
  EXPECT_FALSE(digest_is_known(file, kDigest)) << "there is none";
  put_file(digest_path(file), kDigest + "  row.so\n");
  EXPECT_TRUE(digest_is_known(file, kDigest));
}

TEST(PluginManifest, RefusesOtherBytesAndDamage) {
  const TempDir folder;
  const auto file = folder / "row.so";
  const auto refused = [&](const std::string& manifest, const std::string& words) {
    put_file(digest_path(file), manifest);
    GBC_EXPECT_ERROR(digest_is_known(file, kDigest), Errc::kPluginRefused, words);
  };
  refused(std::string(64, 'a') + "  row.so\n", "has other bytes than its manifest");
  for (const std::string& damaged :
       {std::string(), kDigest, kDigest + "  row.so", kDigest + "  other.so\n", "x" + kDigest,
        kDigest.substr(1) + "  row.so\n", std::string(64, 'G') + "  row.so\n",
        kDigest + "  row.so\n\n"})
    refused(damaged, "is damaged; install the plugin again");
  refused(std::string(5000, 'a'), "its manifest is of no use");
}

TEST(PluginManifest, AFolderInItsPlaceIsNotNone) {
  const TempDir folder;
  const auto file = folder / "row.so";
  std::filesystem::create_directory(digest_path(file));
  GBC_EXPECT_ERROR(digest_is_known(file, kDigest), Errc::kPluginRefused, "of no use");
}

/// The builds write it; sha256sum would say the same.
TEST(PluginManifest, LiesBesideEveryBuiltPlugin) {
  for (const std::string name : {"linear", "conv", "attention", "embedding", "recurrent"}) {
    const std::filesystem::path file = std::string(GBC_PLUGIN_FOLDER) + "/" + name + ".so";
    const auto digest = to_hex(sha256(testing::to_bytes(testing::get_file(file))));
    EXPECT_TRUE(digest_is_known(file, digest)) << name;
  }
}

TEST(PluginProbe, TurnsEveryEndIntoASentence) {
  const auto refused = [](const std::function<void()>& load, const std::string& words) {
    GBC_EXPECT_ERROR(probe_in_child("x.so", load), Errc::kPluginRefused, words);
  };
  int here = 0;
  EXPECT_NO_THROW(probe_in_child("x.so", [&] { here = 1; }));
  EXPECT_EQ(here, 0) << "it ran in this process";
  refused([] { throw Error(Errc::kPluginRefused, "plugin x.so says no"); }, "plugin x.so says no");
  refused([] { throw 1; }, "not a std::exception");
  refused([] { std::_Exit(0); }, "with status 0; it is damaged, or faulty");
  refused([] { std::_Exit(7); }, "with status 7");
  refused([] { ::raise(SIGKILL); }, "signal 9");
}

}  // namespace
}  // namespace gbcompress
