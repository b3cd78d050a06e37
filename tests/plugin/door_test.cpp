/// Each kind of bad plugin is refused with a message of its own, and the host lives on.
#include "plugin/door.h"

#include <torch/types.h>

#include <cstdlib>
#include <set>

#include "gbcompress/plugin.h"
#include "support/files.h"

namespace gbcompress {
namespace {
namespace fs = std::filesystem;
using test::bad;
using test::builtin;
using test::refusal;

std::string refusal_of(const fs::path& file, Errc wanted = Errc::kPluginRefused) {
  PluginHost host;
  return refusal(host, file, wanted);
}

/// misbehave.so, behaving; the linear plugin is there already.
std::string misbehaviour(const char* how) {
  PluginHost host;
  host.load(builtin("linear"));
  ::setenv("GBC_TEST_BEHAVIOUR", how, 1);
  const std::string message = refusal(host, bad("misbehave"));
  ::unsetenv("GBC_TEST_BEHAVIOUR");
  EXPECT_EQ(host.registry().find_by_module("Row"), nullptr) << "half a plugin was registered";
  return message;
}

void expect_has(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "not \"" << part << "\" in: " << message;
}

TEST(PluginDoor, LoadsAGoodPlugin) {
  PluginHost host;
  const LoadedPlugin& plugin = host.load(builtin("conv"));
  EXPECT_EQ(plugin.fingerprint.name, "conv");
  EXPECT_EQ(plugin.gnet_types, std::vector<std::string>{"conv"});
  EXPECT_EQ(plugin.sha256.size(), 64u);
  EXPECT_NE(host.registry().find_by_module("ConvTranspose2d"), nullptr);
  host.load(bad("misbehave"));
  EXPECT_EQ(plugin.fingerprint.name, "conv") << "the first reference moved";
}

TEST(PluginDoor, AnotherHostMayLoadItAgain) {
  for (int i = 0; i < 2; ++i) {
    PluginHost host;
    host.load(builtin("linear"));
    EXPECT_EQ(host.registry().ids(), std::vector<std::string>{"linear"});
  }
}

TEST(PluginDoor, ExplainsAnotherFingerprint) {
  std::string message = refusal_of(bad("bad_stale_abi"));
  expect_has(message,
             "built for plugin interface 0, this program has " + std::to_string(GBC_PLUGIN_ABI));
  EXPECT_EQ(message.find("LibTorch"), std::string::npos) << message;
  message = refusal_of(bad("bad_wrong_torch"));
  expect_has(message, "built for LibTorch 2.12.0, this program has ");
  EXPECT_EQ(message.find("interface"), std::string::npos) << message;
  message = refusal_of(bad("bad_wrong_both"));
  expect_has(message, "interface 0");
  expect_has(message, "2.12.0");
}

TEST(PluginDoor, SaysWhatToDoWithAPluginOfThePreviousInterface) {
  const PluginFingerprint stored = scan_plugin(bad("bad_previous_abi"));
  EXPECT_EQ(stored.name, "linear");
  EXPECT_EQ(stored.fields.front(),
            (std::pair<std::string, std::string>{"abi", std::to_string(GBC_PLUGIN_ABI - 1)}))
      << "store the marker of the interface before " << GBC_PLUGIN_ABI;
  const std::string message = refusal_of(bad("bad_previous_abi"));
  expect_has(message, "built for plugin interface " + std::to_string(GBC_PLUGIN_ABI - 1) +
                          ", this program has " + std::to_string(GBC_PLUGIN_ABI));
  expect_has(message, "build it again with this program's SDK");
}

TEST(PluginDoor, LoadsStrategies) {
  PluginHost host;
  EXPECT_EQ(host.load(bad("direct_feedback")).strategies,
            std::vector<std::string>{"direct_feedback"});
  EXPECT_EQ(host.registry().strategies().count("direct_feedback"), 1u);
}

TEST(PluginDoor, RefusesAnEntryThatIsMissingOrFails) {
  expect_has(refusal_of(bad("bad_no_entry")), "no entry function");
  expect_has(refusal_of(bad("bad_null")), "returned nothing");
  expect_has(refusal_of(bad("bad_entry_throws")), "threw in its entry function: not today");
  expect_has(refusal_of(bad("bad_unresolved")), "gbc_test_nobody_defines_this");
  expect_has(refusal_of(bad("bad_small")), "8 bytes");
  expect_has(refusal_of(bad("bad_other_name")), "calls itself beta 0.1.0, its marker says bad");
  expect_has(refusal_of(bad("bad_no_function")), "incompletely");
  expect_has(refusal_of(bad("bad_fails_silently")), "gave no reason");
  expect_has(refusal_of(bad("bad_register_throws")), "threw while registering: from a function");
}

TEST(PluginDoor, RefusesARegistrationThatFails) {
  expect_has(misbehaviour("throw"), "no kernel for this machine");
  const std::string torch = misbehaviour("throw_torch");
  expect_has(torch, "no kernel in LibTorch");
  EXPECT_EQ(torch.find("frame #"), std::string::npos) << "a stack trace: " << torch;
  expect_has(misbehaviour("throw_int"), "not a std::exception");
  expect_has(misbehaviour("null"), "is null");
}

TEST(PluginDoor, TwoPluginsCannotClaimOneLayerType) {
  for (const char* how : {"same_id", "same_module", "swallow"}) {
    const std::string message = misbehaviour(how);
    expect_has(message, "misbehave.so");
    expect_has(message, "linear.so");
    expect_has(message, "load only one");
  }
}

TEST(PluginDoor, TheSamePluginTwice) {
  const testing::TempDir folder;
  fs::copy(builtin("linear"), folder / "copy.so");
  PluginHost host;
  host.load(builtin("linear"));
  expect_has(refusal(host, builtin("linear")), "is loaded already");
  const std::string copy = refusal(host, folder / "copy.so");
  expect_has(copy, "is loaded already");
  expect_has(copy, "linear.so");
  const std::string other = refusal(host, bad("bad_called_linear"));
  expect_has(other, "is called linear, as is the other plugin");
}

TEST(PluginDoor, FilesThatAreNoPlugins) {
  const testing::TempDir folder;
  testing::put_file(folder / "text.so", "I am a library, honestly\n");
  testing::put_file(folder / "empty.so", "");
  const std::string whole = testing::get_file(builtin("linear"));
  testing::put_file(folder / "half.so", whole.substr(0, whole.size() / 2));
  expect_has(refusal_of(folder / "text.so"), "is not a library");
  expect_has(refusal_of(folder / "empty.so"), "is not a library");
  expect_has(refusal_of(folder / "half.so"), "is truncated");
  refusal_of(folder / "none.so", Errc::kNotFound);
  fs::create_directory(folder / "folder.so");
  refusal_of(folder / "folder.so", Errc::kIo);
  // Our own library holds the words that are searched for, and no marker.
  expect_has(refusal_of(fs::path(GBC_PLUGIN_FOLDER) / "../../lib/libgbcompress.so.0"),
             "no gbcompress");
}

TEST(PluginDoor, FilesThatEverybodyMayWrite) {
  const testing::TempDir folder;
  fs::copy(builtin("linear"), folder / "linear.so");
  fs::permissions(folder / "linear.so", fs::perms::others_write, fs::perm_options::add);
  expect_has(refusal_of(folder / "linear.so"), "may be written by everybody");
  fs::permissions(folder / "linear.so", fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(folder.path(), fs::perms::all);
  expect_has(refusal_of(folder / "linear.so"), "folder that everybody may write to");
  fs::permissions(folder.path(), fs::perms::all | fs::perms::sticky_bit);
  PluginHost host;
  host.load(folder / "linear.so");
  // A link is checked by what it names.
  fs::permissions(folder.path(), fs::perms::owner_all);
  fs::create_symlink(folder / "linear.so", folder / "link.so");
  PluginHost other;
  EXPECT_EQ(other.load(folder / "link.so").file.filename(), "linear.so");
}

TEST(PluginDoor, EachRefusalHasItsOwnMessage) {
  std::set<std::string> messages;
  const char* names[] = {"stale_abi",    "wrong_torch",    "no_entry",       "null",
                         "entry_throws", "unresolved",     "small",          "other_name",
                         "no_function",  "fails_silently", "register_throws"};
  for (const char* name : names) {
    const std::string file = bad(std::string("bad_") + name).string();
    std::string message = refusal_of(file);
    messages.insert(message.erase(message.find(file), file.size()));
  }
  EXPECT_EQ(messages.size(), std::size(names));
}

TEST(PluginDoor, WhatAPluginMadeOutlivesItsHost) {
  at::Tensor tiles = torch::rand({4, 8, 8, 1});
  tiles.set_requires_grad(true);
  at::Tensor built;
  {
    PluginHost host;
    host.load(bad("misbehave"));
    const GNetType& type = *host.registry().find_by_id("row");
    ParameterInfo info;
    info.shape = {16, 16};
    GNetOptions options;
    options.tile_weights = 64;
    const auto spec = type.spec(info, options);
    built = type.build(*spec, tiles, info.shape, "weight");
  }
  built.sum().backward();
  EXPECT_TRUE(torch::equal(tiles.grad(), torch::ones_like(tiles)));
}

}  // namespace
}  // namespace gbcompress
