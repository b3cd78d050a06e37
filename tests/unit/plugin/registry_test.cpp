#include <gtest/gtest.h>
#include <torch/types.h>

#include "gbcompress/error.h"
#include "gbcompress/registry.h"
#include "gbcompress/strategy.h"

namespace gbcompress {
namespace {

std::optional<GNetSpec> spec_of_nothing(const ParameterInfo&, const GNetOptions&) { return {}; }

std::string refusal(Registry& registry, const std::string& origin,
                    const std::function<void(Registrar&)>& fill,
                    Errc wanted = Errc::kPluginRefused) {
  try {
    registry.stage(origin, fill);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), wanted);
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

BuiltModel no_model(const ModelRequest&) { return {}; }
std::unique_ptr<Strategy> no_strategy() { return nullptr; }

TEST(Registry, FindsWhatWasCommitted) {
  Registry registry;
  const auto added = registry.stage("a.so", [](Registrar& r) {
    r.register_gnet_type({.id = "row", .modules = {"Row", "RowWide"}, .revision = 2},
                         spec_of_nothing);
    r.register_gnet_type("Col", spec_of_nothing);
    r.register_model("net", no_model);
    r.register_strategy("way", no_strategy);
  });
  EXPECT_EQ(added.strategies, std::vector<std::string>{"way"});
  EXPECT_EQ(registry.strategies().count("way"), 1u);
  EXPECT_EQ(added.gnet_types, (std::vector<std::string>{"row", "col"}));
  EXPECT_EQ(added.models, std::vector<std::string>{"net"});
  EXPECT_EQ(registry.ids(), (std::vector<std::string>{"col", "row"}));
  ASSERT_NE(registry.find_by_id("row"), nullptr);
  EXPECT_EQ(registry.find_by_module("RowWide"), registry.find_by_id("row"));
  EXPECT_EQ(registry.find_by_module("Col"), registry.find_by_id("col"));
  EXPECT_EQ(registry.find_by_module("row"), nullptr);
  EXPECT_EQ(registry.find_by_id("Row"), nullptr);
  EXPECT_EQ(registry.models().count("net"), 1u);
}

TEST(Registry, CustomBuildIsWhetherThereIsOne) {
  Registry registry;
  registry.stage("a.so", [](Registrar& r) {
    r.register_gnet_type("Places", spec_of_nothing);
    r.register_gnet_type("Builds", spec_of_nothing,
                         [](auto&, const at::Tensor& t) { return t * 2; });
  });
  EXPECT_EQ(registry.find_by_id("places")->supports("custom-build"), 0);
  EXPECT_EQ(registry.find_by_id("builds")->supports("custom-build"), 1);
  EXPECT_EQ(registry.find_by_id("builds")->supports("anything else"), 0);
}

TEST(Registry, CommitsAllOrNothing) {
  Registry registry;
  refusal(registry, "a.so", [](Registrar& r) {
    r.register_gnet_type("Row", spec_of_nothing);
    r.register_model("net", no_model);
    r.register_strategy("way", no_strategy);
    r.register_gnet_type({.id = "Bad Id", .modules = {"Other"}}, spec_of_nothing);
  });
  EXPECT_TRUE(registry.ids().empty());
  EXPECT_EQ(registry.find_by_module("Row"), nullptr);
  EXPECT_TRUE(registry.models().empty());
  EXPECT_TRUE(registry.strategies().empty());
  // What fill throws is passed on, and also leaves nothing.
  EXPECT_THROW(registry.stage("a.so",
                              [](Registrar& r) {
                                r.register_gnet_type("Row", spec_of_nothing);
                                throw std::runtime_error("later");
                              }),
               std::runtime_error);
  EXPECT_TRUE(registry.ids().empty());
}

TEST(Registry, ConflictsNameBothFiles) {
  Registry registry;
  registry.stage("first.so", [](Registrar& r) {
    r.register_gnet_type("Row", spec_of_nothing);
    r.register_model("net", no_model);
    r.register_strategy("way", no_strategy);
  });
  for (const auto& fill : std::vector<std::function<void(Registrar&)>>{
           [](Registrar& r) { r.register_gnet_type("Row", spec_of_nothing); },
           [](Registrar& r) {
             r.register_gnet_type({.id = "other", .modules = {"Row"}}, spec_of_nothing);
           },
           [](Registrar& r) { r.register_model("net", no_model); },
           [](Registrar& r) { r.register_strategy("way", no_strategy); },
       }) {
    const std::string message = refusal(registry, "second.so", fill);
    EXPECT_NE(message.find("first.so"), std::string::npos) << message;
    EXPECT_NE(message.find("second.so"), std::string::npos) << message;
  }
}

TEST(Registry, ASwallowedConflictIsStillRefused) {
  Registry registry;
  registry.stage("first.so", [](Registrar& r) { r.register_gnet_type("Row", spec_of_nothing); });
  const std::string message = refusal(registry, "second.so", [](Registrar& r) {
    r.register_gnet_type("Fine", spec_of_nothing);
    try {
      r.register_gnet_type("Row", spec_of_nothing);
    } catch (...) {
    }
  });
  EXPECT_NE(message.find("row"), std::string::npos) << message;
  EXPECT_EQ(registry.find_by_id("fine"), nullptr);
}

TEST(Registry, RefusesNonsense) {
  Registry registry;
  refusal(registry, "a.so", [](Registrar& r) { r.register_gnet_type(nullptr); });
  refusal(registry, "a.so", [](Registrar& r) { r.register_gnet_type("Row", nullptr); });
  refusal(registry, "a.so", [](Registrar& r) { r.register_model("net", nullptr); });
  refusal(registry, "a.so", [](Registrar& r) { r.register_model("Net", no_model); });
  refusal(registry, "a.so", [](Registrar& r) { r.register_strategy("way", nullptr); });
  refusal(registry, "a.so", [](Registrar& r) { r.register_strategy("a way", no_strategy); });
  const std::string taken =
      refusal(registry, "a.so", [](Registrar& r) { r.register_strategy("backprop", no_strategy); });
  EXPECT_NE(taken.find("the program provides"), std::string::npos) << taken;
  refusal(registry, "a.so", [](Registrar& r) {
    r.register_gnet_type({.id = "row", .modules = {}}, spec_of_nothing);
  });
  refusal(registry, "a.so", [](Registrar& r) {
    r.register_gnet_type({.id = "row", .modules = {"Row", "Row"}}, spec_of_nothing);
  });
}

TEST(Registry, RequireSaysWhatIsMissing) {
  Registry registry;
  registry.stage("a.so", [](Registrar& r) {
    r.register_gnet_type({.id = "row", .modules = {"Row"}, .revision = 2}, spec_of_nothing);
  });
  EXPECT_EQ(&registry.require("row", 2), registry.find_by_id("row"));
  const auto missing = [&](const std::string& id, std::uint32_t revision) {
    try {
      registry.require(id, revision);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kPluginMissing);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(missing("col", 1).find("layer type col"), std::string::npos);
  EXPECT_NE(missing("col", 1).find("PluginHost::load()"), std::string::npos);
  EXPECT_NE(missing("row", 3).find("newer"), std::string::npos);
  EXPECT_NE(missing("row", 1).find("older"), std::string::npos);
}

}  // namespace
}  // namespace gbcompress
