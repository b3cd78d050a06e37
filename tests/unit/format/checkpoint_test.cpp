#include "format/torch/checkpoint.h"

#include "format/safetensors/safetensors.h"
#include "format/torch/state_dict.h"
#include "pickle_builder.h"
#include "support/files.h"

namespace gbcompress {
namespace {

namespace p = testing::pickle;

const OpenOptions kAll{.keep_all = true};

struct HeldCheckpoint {
  explicit HeldCheckpoint(const std::string& body, const OpenOptions& options = {})
      : bytes(testing::to_bytes(p::saved(body, {"abcdefgh"}))),
        bundle(read_state_dict(bytes, "x.pt", options)) {}
  /// "a b c"
  std::string names() const {
    std::string text;
    for (const TensorEntry& entry : bundle.tensors) text += (text.empty() ? "" : " ") + entry.name;
    return text;
  }
  /// The notes, one after the other.
  std::string notes() const {
    std::string text;
    for (const std::string& note : bundle.notes) text += (text.empty() ? "" : "; ") + note;
    return text;
  }
  testing::Bytes bytes;
  TensorBundle bundle;
};

std::string matrix() { return p::tensor("Byte", "0", 8, 0, {2, 2}, {2, 1}); }
std::string vector() { return p::tensor("Byte", "0", 8, 4, {2}, {1}); }
std::string scalar() { return p::tensor("Byte", "0", 8, 6, {}, {}); }
std::string net(const std::string& prefix = "") {
  return p::dict({p::text(prefix + "fc.weight"), matrix(), p::text(prefix + "fc.bias"), vector()});
}
std::string adam() {
  return p::dict({p::text("state"),
                  p::dict({std::string("K\0", 2), p::dict({p::text("exp_avg"), matrix()})}),
                  p::text("param_groups"), "](" + p::dict({p::text("lr"), "K\1"}) + "e"});
}
std::string entries(const std::vector<std::pair<std::string, std::string>>& list) {
  std::vector<std::string> items;
  for (const auto& [key, value] : list) {
    items.push_back(p::text(key));
    items.push_back(value);
  }
  return p::dict(items);
}
std::string object(const std::string& module, const std::string& name, const std::string& state) {
  return p::global(module, name) + ")\x81" + state + "b";
}

void refuse(const std::string& body, Errc code, const std::string& words,
            const OpenOptions& options = {}) {
  GBC_EXPECT_ERROR(HeldCheckpoint(body, options), code, words);
}

TEST(Checkpoint, TheModelIsFoundUnderItsUsualKeys) {
  for (const char* key :
       {"state_dict", "model", "model_state_dict", "net", "params", "generator", "ema", "resnet"}) {
    const HeldCheckpoint held(entries({{"epoch", "K\3"}, {key, net()}, {"optimizer", adam()}}));
    EXPECT_EQ(held.names(), "fc.bias fc.weight") << key;
    EXPECT_EQ(held.notes(), "left out: optimizer (1 tensor, 4 B), epoch") << key;
  }
  const HeldCheckpoint inner(entries({{"model", entries({{"state_dict", net()}, {"lr", "K\1"}})}}));
  EXPECT_EQ(inner.names(), "fc.bias fc.weight");
  EXPECT_EQ(inner.notes(), "left out: model.lr");
}

TEST(Checkpoint, AFlatStateDictIsTakenWhole) {
  const HeldCheckpoint held(net());
  EXPECT_EQ(held.names(), "fc.bias fc.weight");
  EXPECT_EQ(held.notes(), "");
  const HeldCheckpoint counter(entries({{"step", scalar()}, {"rnn.weight", matrix()}}));
  EXPECT_EQ(counter.names(), "rnn.weight step") << "a model's own counter";
  const HeldCheckpoint mixed(
      entries({{"rnn.weight", matrix()}, {"epoch", "K\1"}, {"optimizer", adam()}}));
  EXPECT_EQ(mixed.names(), "rnn.weight");
  EXPECT_EQ(mixed.notes(), "left out: optimizer (1 tensor, 4 B), epoch");
}

TEST(Checkpoint, TensorsBesideTheModelAreLeftOut) {
  const HeldCheckpoint held(entries({{"state_dict", net()},
                                     {"rng_state", vector()},
                                     {"best", scalar()},
                                     {"mean", vector()},
                                     {"stats", entries({{"std", vector()}})}}));
  EXPECT_EQ(held.names(), "fc.bias fc.weight");
  EXPECT_EQ(held.bundle.left_out, (std::vector<std::string>{"mean", "rng_state", "stats", "best"}));
}

TEST(Checkpoint, AModelOfNestedDictionariesKeepsItsNames) {
  const HeldCheckpoint held(entries({{"encoder", net()}, {"scale", vector()}, {"decoder", net()}}));
  EXPECT_EQ(held.names(),
            "decoder.fc.bias decoder.fc.weight encoder.fc.bias encoder.fc.weight scale");
}

TEST(Checkpoint, LightningsParts) {
  const HeldCheckpoint held(entries({{"pytorch-lightning_version", p::text("2.4.0")},
                                     {"state_dict", net("model.")},
                                     {"callbacks", entries({{"x", entries({{"best", matrix()}})}})},
                                     {"optimizer_states", "](" + adam() + "e"},
                                     {"lr_schedulers", "](" + entries({{"t", vector()}}) + "e"},
                                     {"hyper_parameters", object("argparse", "Namespace", "}")}}));
  EXPECT_EQ(held.names(), "model.fc.bias model.fc.weight");
  EXPECT_EQ(held.notes(),
            "left out: callbacks (1 tensor, 4 B), optimizer_states (1 tensor, 4 B), lr_schedulers "
            "(1 tensor, 2 B), hyper_parameters (argparse.Namespace), pytorch-lightning_version");
}

TEST(Checkpoint, PrefixesOfWrappersAreTakenOffWhereAllShareThem) {
  const HeldCheckpoint held(entries({{"state_dict", net("module._orig_mod.")}}));
  EXPECT_EQ(held.names(), "fc.bias fc.weight");
  EXPECT_EQ(held.notes(), "all names begin with \"module._orig_mod.\", which is taken off");
  EXPECT_EQ(HeldCheckpoint(entries({{"module.w", matrix()}, {"b", vector()}})).names(),
            "b module.w");
  EXPECT_EQ(HeldCheckpoint(net("modules.")).names(), "modules.fc.bias modules.fc.weight");
}

TEST(Checkpoint, SeveralModelsAreNamed) {
  const std::string gan = entries({{"generator", net()}, {"discriminator", net()}});
  refuse(gan, Errc::kUsage,
         "x.pt holds 2 candidates for the model: generator and discriminator; choose one with "
         "`part` NAME, or take all with `keep_all`");
  refuse(entries({{"model", net()}, {"ema", net()}}), Errc::kUsage, "model and ema");
  refuse(entries({{"a", entries({{"model", net()}, {"model_ema", net()}})}}), Errc::kUsage,
         "a.model and a.model_ema");
}

TEST(Checkpoint, APartIsChosenByItsName) {
  const std::string gan =
      entries({{"generator", net()},
               {"ema", entries({{"state_dict", net("module.")}, {"decay", "K\1"}})},
               {"optimizer", adam()}});
  const HeldCheckpoint generator(gan, {.part = "generator"});
  EXPECT_EQ(generator.names(), "fc.bias fc.weight");
  EXPECT_EQ(generator.notes(), "left out: ema (2 tensors, 6 B), optimizer (1 tensor, 4 B)");
  EXPECT_EQ(HeldCheckpoint(gan, {.part = "ema"}).names(), "fc.bias fc.weight");
  EXPECT_EQ(HeldCheckpoint(gan, {.part = "ema.state_dict"}).names(), "fc.bias fc.weight");
  EXPECT_EQ(HeldCheckpoint(entries({{"a.b", net()}, {"c", net()}}), {.part = "a.b"}).names(),
            "fc.bias fc.weight");
  const HeldCheckpoint parts(
      entries({{"m", entries({{"enc", net()}, {"dec", net()}})}, {"o", net()}}), {.part = "m"});
  EXPECT_EQ(parts.names(), "dec.fc.bias dec.fc.weight enc.fc.bias enc.fc.weight");
  refuse(gan, Errc::kNotFound, "no part critic; it has generator, ema and optimizer",
         {.part = "critic"});
  refuse(gan, Errc::kNotFound, "no part generator.x", {.part = "generator.x"});
}

TEST(Checkpoint, EverythingIsKeptWhereThatIsAskedFor) {
  const HeldCheckpoint held(
      entries({{"model", net("module.")},
               {"epoch", "K\3"},
               {"best", "\x88"},
               {"lr", "G\x3f\xe0" + std::string(6, '\0')},
               {"betas", "G\x3f\xe0" + std::string(6, '\0') + "G" + std::string(8, '\0') + "\x86"},
               {"steps", "](K\1K\2e"},
               {"name", p::text("net")},
               {"optimizer", adam()}}),
      kAll);
  EXPECT_EQ(held.names(),
            "best betas epoch lr model.module.fc.bias model.module.fc.weight "
            "optimizer.param_groups.0.lr optimizer.state.0.exp_avg steps");
  EXPECT_EQ(held.notes(), "left out, neither tensors nor numbers: name");
  const auto number = [&](const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                          const std::string& bytes) {
    const TensorEntry* entry = held.bundle.find(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(entry->dtype, dtype) << name;
    EXPECT_EQ(entry->shape, shape) << name;
    EXPECT_EQ(testing::to_text(entry->bytes), bytes) << name;
  };
  number("epoch", DType::kI64, {}, testing::le(std::int64_t{3}));
  number("best", DType::kBool, {}, "\x01");
  number("lr", DType::kF64, {}, testing::le(0.5));
  number("betas", DType::kF64, {2}, testing::le(0.5) + testing::le(0.0));
  number("steps", DType::kI64, {2}, testing::le(std::int64_t{1}) + testing::le(std::int64_t{2}));
}

TEST(Checkpoint, WithoutAModel) {
  refuse("}", Errc::kUnsupported, "x.pt holds no tensors");
  refuse(entries({{"epoch", "K\1"}}), Errc::kUnsupported, "holds no model, only epoch");
  refuse(entries({{"optimizer", adam()}, {"epoch", "K\1"}, {"rng_state", vector()}}),
         Errc::kUnsupported,
         "holds no model, only optimizer (1 tensor, 4 B), rng_state (1 tensor, 2 B), epoch");
  refuse(adam(), Errc::kUnsupported, "holds no model, only an optimizer's state (1 tensor, 4 B)");
  refuse(matrix(), Errc::kUnsupported, "does not hold a dictionary");
}

/// The state of a module.
std::string module(const std::string& name, const std::string& parameters,
                   const std::string& buffers = "}", const std::string& modules = "}",
                   const std::string& computed = "]") {
  return object("net", name,
                entries({{"training", "\x89"},
                         {"_parameters", parameters},
                         {"_buffers", buffers},
                         {"_non_persistent_buffers_set",
                          p::global("__builtin__", "set") + "(" + computed + "tR"},
                         {"_modules", modules},
                         {"stride", vector()}}));
}

std::string whole_module() {
  const std::string norm = module("Norm", entries({{"weight", vector()}, {"bias", "N"}}),
                                  entries({{"running_mean", vector()}, {"cache", vector()}}), "}",
                                  "](" + p::text("cache") + "e");
  return module("Net", entries({{"scale", scalar()}}), "}",
                entries({{"0", module("Linear", entries({{"weight", matrix()}}))},
                         {"1", norm},
                         {"act", module("SiLU", "}")},
                         {"dropped", "N"}}));
}

TEST(Checkpoint, PickledModulesAreReadAsTheirStateDicts) {
  const std::string names = "0.weight 1.running_mean 1.weight scale";
  const HeldCheckpoint top(whole_module());
  EXPECT_EQ(top.names(), names);
  EXPECT_EQ(top.notes(),
            "the file is a pickled module of class net.Net: its parameters and buffers are read, "
            "its code is not");
  const HeldCheckpoint inner(
      entries({{"epoch", "K\1"}, {"model", whole_module()}, {"ema", "N"}, {"optimizer", adam()}}));
  EXPECT_EQ(inner.names(), names);
  EXPECT_NE(inner.notes().find("left out: optimizer (1 tensor, 4 B), epoch"), std::string::npos)
      << inner.notes();
  EXPECT_EQ(HeldCheckpoint(entries({{"model", whole_module()}}), kAll).bundle.tensors.size(), 4u);
  const std::string both = entries({{"ema", whole_module()}, {"model", module("M", net())}});
  EXPECT_EQ(HeldCheckpoint(both).names(), names);
  EXPECT_NE(HeldCheckpoint(both).notes().find("read: ema, the average of model; choose the other "
                                              "with `part` model"),
            std::string::npos);
  EXPECT_EQ(HeldCheckpoint(both, {.part = "model"}).names(), "fc.bias fc.weight");
  refuse(entries({{"net1", whole_module()}, {"net2", whole_module()}}), Errc::kUsage,
         "net1 and net2");
  refuse(module("Net", "}", "}", entries({{"odd", object("q", "Packed", "}")}})),
         Errc::kUnsupported, "the module odd is of class q.Packed");
  refuse(object("some", "Thing", "}"), Errc::kUnsupported, "an object made by some.Thing");
}

TEST(Checkpoint, WhateverStandsBesideTheWeightsIsLeftOut) {
  const std::vector<std::string> beside = {
      p::global("__builtin__", "print"),
      p::global("code.x", "C") + ")\x81}b",
      p::global("posix", "system") + "(" + p::text("false") + "tR",
      std::string("]q\x07h\x07"
                  "a"),
      "}(K\1K\2\x86K\3u",
      "}(\x88K\3NK\4u"};
  for (const std::string& odd : beside) {
    EXPECT_EQ(HeldCheckpoint(entries({{"state_dict", net()}, {"hyper", odd}})).names(),
              "fc.bias fc.weight");
    EXPECT_EQ(HeldCheckpoint(entries({{"net", entries({{"a", matrix()}, {"b", odd}})}})).names(),
              "a");
  }
  refuse("}(K\1K\2\x86" + matrix() + "u", Errc::kUnsupported, "neither text nor number");
}

std::string distributed(const std::string& placement) {
  const std::string maker = p::global("torch._utils", "_rebuild_wrapper_subclass"),
                    type = p::global("torch.distributed.tensor", "DTensor"),
                    where = object("torch.distributed.tensor.placement_types", placement, "}"),
                    spec = object("spec", "DTensorSpec", entries({{"placements", where + "\x85"}})),
                    state = "N" + entries({{"_local_tensor", matrix()}, {"_spec", spec}}) + "\x86";
  return p::global("torch._tensor", "_rebuild_from_type_v2") + "(" + maker + type + ")" + state +
         "tR";
}

TEST(Checkpoint, DistributedTensorsAreReadWhereEveryRankHoldsThem) {
  EXPECT_EQ(HeldCheckpoint(entries({{"w", distributed("Replicate")}})).names(), "w");
  refuse(entries({{"a", matrix()}, {"w", distributed("Shard")}}), Errc::kUnsupported,
         "w is a shard of a distributed tensor, which is not read; gather it first with "
         ".full_tensor()");
  refuse(entries({{"w", distributed("Partial")}}), Errc::kUnsupported, "one term of");
}

TEST(Checkpoint, TensorsThatAreNoPlainOnesAreNamed) {
  const std::string qint = p::global("torch._utils", "_rebuild_qtensor") + "(" +
                           p::storage("torch", "QInt8Storage", "0", 8) + "K\1tR";
  refuse(entries({{"a", matrix()}, {"w", qint}}), Errc::kUnsupported,
         "x.pt: w is a quantized tensor, which is not read; save it as .dequantize()");
  refuse(entries({{"model", entries({{"a", matrix()}, {"list", "](" + qint + "e"}})}}),
         Errc::kUnsupported, "list.0 is a quantized tensor");
  refuse(entries({{"w", p::tensor("ComplexDouble", "0", 8, 0, {1}, {1})}, {"a", matrix()}}),
         Errc::kUnsupported,
         "w is of the type complex128, which is not read; save it as torch.view_as_real");
  refuse(entries({{"w", qint}, {"a", matrix()}}), Errc::kUnsupported, "a quantized tensor", kAll);
  const std::string array = p::global("numpy.core.multiarray", "_reconstruct") + "(" + "K\1tR";
  refuse(entries({{"a", matrix()}, {"w", array}}), Errc::kUnsupported, "torch.from_numpy(");
  const std::string nested = p::global("torch._tensor", "_rebuild_from_type_v2") + "(" +
                             p::global("torch.nested._internal.nested_tensor", "_rebuild_njt") +
                             p::global("torch.nested", "NestedTensor") + ")}tR";
  refuse(entries({{"a", matrix()}, {"w", nested}}), Errc::kUnsupported, "w is a nested tensor");
  EXPECT_EQ(HeldCheckpoint(entries({{"model", net()}, {"history", array}})).names(),
            "fc.bias fc.weight")
      << "beside the model it does not matter";
}

TEST(Checkpoint, NestingIsBounded) {
  std::string doubling = entries({{"w", matrix()}});
  for (int level = 0; level < 40; ++level)
    doubling +=
        "q\x01"
        "h\x01\x86";
  EXPECT_EQ(HeldCheckpoint(entries({{"net", net()}, {"optimizer", doubling}})).names(),
            "fc.bias fc.weight");
  refuse(entries({{"net", doubling}}), Errc::kUsage, "net.0 and net.1");
  refuse(entries({{"optimizer", doubling}}), Errc::kLimit, "more than 1,000,000 tensors", kAll);
  std::string deep = matrix();
  for (int level = 0; level < 100; ++level) deep = entries({{"model", deep}});
  refuse(deep, Errc::kLimit, "too deep");
}

struct Flat : ::testing::Test {
  std::filesystem::path write(const std::vector<std::string>& names) {
    std::vector<TensorEntry> tensors;
    for (const std::string& name : names) tensors.push_back({name, DType::kU8, {2}, bytes});
    write_safetensors(dir / "x.safetensors", tensors, {}, true);
    return dir / "x.safetensors";
  }
  testing::Bytes bytes = testing::to_bytes("ab");
  testing::TempDir dir;
};

TEST_F(Flat, NamesAloneLeaveNothingOut) {
  const auto file = write({"fc.weight", "optimizer.state.0.exp_avg", "scaler.mean",
                           "optimizer.net.weight", "queue.momentum_buffer"});
  EXPECT_EQ(open_tensors(file).tensors.size(), 5u);
  EXPECT_TRUE(open_tensors(file).notes.empty());
  EXPECT_EQ(open_tensors(file, kAll).tensors.size(), 5u);
  EXPECT_FALSE(open_tensors(file, kAll).find("optimizer.net.weight")->exact);
  EXPECT_EQ(open_tensors(write({"optimizer.x"})).tensors.size(), 1u);
}

TEST_F(Flat, AFileWithoutNumbersSaysSo) {
  write_safetensors(dir / "x.safetensors", std::vector<TensorEntry>{{"a", DType::kF16, {0}, {}}},
                    {}, true);
  ASSERT_EQ(open_tensors(dir / "x.safetensors").notes.size(), 1u);
  EXPECT_NE(open_tensors(dir / "x.safetensors").notes[0].find("holds no numbers"),
            std::string::npos);
}

TEST_F(Flat, APartIsABeginningOfNames) {
  const auto file = write({"generator.fc", "discriminator.fc"});
  const TensorBundle bundle = open_tensors(file, {.part = "generator"});
  ASSERT_EQ(bundle.tensors.size(), 1u);
  EXPECT_EQ(bundle.tensors[0].name, "fc");
  EXPECT_EQ(bundle.notes, std::vector<std::string>{"left out: 1 tensors outside of generator"});
  GBC_EXPECT_ERROR(open_tensors(file, {.part = "gen"}), Errc::kNotFound, "no part gen");
  GBC_EXPECT_ERROR(open_tensors(file, {.keep_all = true, .part = "x"}), Errc::kUsage,
                   "contradicts");
}

}  // namespace
}  // namespace gbcompress
