#include <gtest/gtest.h>
#include <torch/types.h>

#include "gbcompress/plugin.h"
#include "gbcompress/registry.h"

namespace gbcompress {
namespace {

TEST(Fingerprint, HostSaysWhatThePluginMacroSays) {
  EXPECT_EQ(host_fingerprint().text(), GBC_FINGERPRINT);
  std::vector<std::string> keys;
  for (const auto& [key, value] : host_fingerprint().fields) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"abi", "torch", "gcc", "std", "cxx11abi"}));
  EXPECT_TRUE(explain_mismatch(host_fingerprint(), host_fingerprint()).empty());
}

TEST(Fingerprint, EachFieldIsExplained) {
  const PluginFingerprint host = host_fingerprint();
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"abi", "plugin interface 77"},
      {"torch", "LibTorch 77"},
      {"gcc", "GCC 77"},
      {"std", "__cplusplus 77"},
      {"cxx11abi", "_GLIBCXX_USE_CXX11_ABI=77"}};
  PluginFingerprint all = host;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    PluginFingerprint one = host;
    ASSERT_EQ(one.fields[i].first, wrong[i].first);
    one.fields[i].second = all.fields[i].second = "77";
    const auto sentences = explain_mismatch(one, host);
    ASSERT_EQ(sentences.size(), 1u) << wrong[i].first;
    EXPECT_NE(sentences[0].find(wrong[i].second), std::string::npos) << sentences[0];
  }
  EXPECT_EQ(explain_mismatch(all, host).size(), wrong.size());
}

TEST(Fingerprint, MissingAndUnknownFieldsAreDifferences) {
  const PluginFingerprint host = host_fingerprint();
  PluginFingerprint less = host, more = host, turned = host;
  less.fields.pop_back();
  more.fields.emplace_back("cuda", "13");
  std::swap(turned.fields[0], turned.fields[1]);
  EXPECT_EQ(explain_mismatch(less, host).size(), 1u);
  EXPECT_EQ(explain_mismatch(more, host).size(), 1u);
  EXPECT_EQ(explain_mismatch(turned, host).size(), 1u);
}

TEST(Fingerprint, TheTestsRunWithTheLibTorchTheyWereBuiltFor) {
  EXPECT_EQ(torch_runtime_mismatch(), std::nullopt);
}

}  // namespace
}  // namespace gbcompress
