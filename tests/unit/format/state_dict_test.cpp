#include "format/torch/state_dict.h"

#include <random>

#include "format/safetensors/safetensors.h"
#include "pickle_builder.h"
#include "support/files.h"

namespace gbcompress {
namespace {

namespace p = testing::pickle;
using testing::to_text;

/// A bundle together with the bytes it looks into.
struct HeldStateDict {
  explicit HeldStateDict(const std::string& file, const OpenOptions& options = {})
      : bytes(testing::to_bytes(file)), bundle(read_state_dict(bytes, "x.pt", options)) {}
  std::string text(const std::string& name) const {
    const TensorEntry* tensor = bundle.find(name);
    return tensor ? to_text(tensor->bytes) : "absent";
  }
  testing::Bytes bytes;
  TensorBundle bundle;
};

const std::string kSix = "abcdef";

std::string byte_tensor(std::int64_t offset, const std::vector<std::int64_t>& shape,
                        const std::vector<std::int64_t>& strides) {
  return p::tensor("Byte", "0", 6, offset, shape, strides);
}

/// One tensor named "w" over the storage "abcdef".
std::string one(std::int64_t offset, const std::vector<std::int64_t>& shape,
                const std::vector<std::int64_t>& strides) {
  return p::saved(p::dict({p::text("w"), byte_tensor(offset, shape, strides)}), {kSix});
}

TEST(StateDict, StridesAndOffsetsGiveRowMajorBytes) {
  EXPECT_EQ(HeldStateDict(one(0, {2, 3}, {3, 1})).text("w"), "abcdef");
  EXPECT_EQ(HeldStateDict(one(0, {3, 2}, {1, 3})).text("w"), "adbecf") << "transposed";
  EXPECT_EQ(HeldStateDict(one(1, {2, 2}, {3, 1})).text("w"), "bcef") << "columns of a larger one";
  EXPECT_EQ(HeldStateDict(one(2, {3}, {1})).text("w"), "cde");
  EXPECT_EQ(HeldStateDict(one(5, {}, {})).text("w"), "f");
  EXPECT_EQ(HeldStateDict(one(0, {1, 6}, {777, 1})).text("w"), "abcdef")
      << "stride of a single row";
  EXPECT_EQ(HeldStateDict(one(4, {2, 3}, {0, 0})).text("w"), "eeeeee") << "expanded";
  EXPECT_EQ(HeldStateDict(one(0, {2, 1, 3}, {1, 5, 2})).text("w"), "acebdf");
  EXPECT_EQ(HeldStateDict(one(3, {0, 4}, {4, 1})).text("w"), "");
}

TEST(StateDict, ReachingBeyondTheStorage) {
  const auto refuse = [](const std::string& file, Errc code, const std::string& words) {
    GBC_EXPECT_ERROR(HeldStateDict{file}, code, words);
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  refuse(one(0, {7}, {1}), Errc::kCorrupt, "tensor w reaches beyond its storage of 6 bytes");
  refuse(one(6, {}, {}), Errc::kCorrupt, "beyond");
  refuse(one(0, {2, 2}, {5, 1}), Errc::kCorrupt, "beyond");
  refuse(one(kHuge, {2}, {1}), Errc::kCorrupt, "beyond");
  refuse(one(0, {3}, {kHuge}), Errc::kLimit, "too large");
  refuse(one(kHuge, {2}, {kHuge}), Errc::kLimit, "too large");
  refuse(one(0, {kHuge, 2}, {0, 0}), Errc::kLimit, "too large");
  refuse(one(0, {1'000'000'000'000}, {0}), Errc::kLimit, "repeats its storage");
  refuse(one(-1, {1}, {1}), Errc::kCorrupt, "do not fit");
  refuse(one(0, {1}, {-1}), Errc::kCorrupt, "not a non-negative integer");
  refuse(one(0, {-1}, {1}), Errc::kCorrupt, "not a non-negative integer");
  refuse(one(0, {2}, {1, 1}), Errc::kCorrupt, "do not fit");
  refuse(one(0, std::vector<std::int64_t>(9, 1), std::vector<std::int64_t>(9, 1)), Errc::kLimit,
         "9 dimensions");
}

TEST(StateDict, NestedNamesNumbersAndWhatIsNoTensor) {
  const std::string w = byte_tensor(0, {2}, {1}), v = byte_tensor(2, {2}, {1});
  const HeldStateDict held(
      p::saved(p::dict({p::text("epoch"), "K\7", p::text("state"),
                        p::dict({p::text("fc.w"), w, p::text("lr"), "G" + std::string(8, '\0')}),
                        p::text("list"), "](" + w + v + "e", "K\3", v, p::text("none"), "N"}),
               {kSix}));
  ASSERT_EQ(held.bundle.tensors.size(), 4u);
  EXPECT_EQ(held.text("state.fc.w"), "ab");
  EXPECT_EQ(held.text("list.0"), "ab");
  EXPECT_EQ(held.text("list.1"), "cd");
  EXPECT_EQ(held.text("3"), "cd");
  EXPECT_EQ(held.bundle.find("state.fc.w")->bytes.data(), held.bundle.find("list.0")->bytes.data())
      << "tied tensors stay recognisable";
}

TEST(StateDict, OrderedDictParametersAndAttributes) {
  const std::string parameter = p::global("torch._utils", "_rebuild_parameter") + "(" +
                                byte_tensor(0, {6}, {1}) + "\x88" + p::ordered_dict() + "tR";
  const std::string attributes = "}" + p::text("_metadata") + p::ordered_dict() + "s";
  const HeldStateDict held(p::saved(
      p::ordered_dict() + "(" + p::text("w") + parameter + "u" + attributes + "b", {kSix}));
  EXPECT_EQ(held.text("w"), "abcdef");
}

TEST(StateDict, UntypedStoragesCarryTheDtypeBesideThem) {
  const std::string tensor = p::global("torch._utils", "_rebuild_tensor_v3") + "(" +
                             p::storage("torch.storage", "UntypedStorage", "0", 6) + p::number(1) +
                             p::tuple({2}) + p::tuple({1}) + "\x89" + p::ordered_dict() +
                             p::global("torch", "uint16") + "tR";
  const HeldStateDict held(p::saved(p::dict({p::text("w"), tensor}), {kSix}));
  EXPECT_EQ(held.bundle.tensors[0].dtype, DType::kU16);
  EXPECT_EQ(held.text("w"), "cdef");
}

TEST(StateDict, LazyConjugatesAndNegativesAreRefused) {
  const std::string plain = byte_tensor(0, {6}, {1});
  const auto with = [&](const std::string& metadata) {  // a seventh argument
    return p::saved(p::dict({p::text("w"), plain.substr(0, plain.size() - 2) + metadata + "tR"}),
                    {kSix});
  };
  for (const char* key : {"conj", "neg"})
    GBC_EXPECT_ERROR(HeldStateDict{with(p::dict({p::text(key), "\x88"}))}, Errc::kUnsupported,
                     "w is a lazily conjugated or negated tensor, which is not read");
  EXPECT_EQ(HeldStateDict{with("}")}.text("w"), "abcdef");
  EXPECT_EQ(HeldStateDict{with(p::dict({p::text("neg"), "\x89"}))}.text("w"), "abcdef");
}

TEST(StateDict, BadFiles) {
  const auto refuse = [](const std::string& file, Errc code, const std::string& words) {
    GBC_EXPECT_ERROR(HeldStateDict{file}, code, words);
  };
  const std::string w = byte_tensor(0, {6}, {1});
  const std::string good = p::dict({p::text("w"), w});
  refuse("", Errc::kTruncated, "is empty");
  refuse("neither zip nor pickle", Errc::kUnsupported, "not a PyTorch state dict");
  refuse(
      "\x80\x02\x8a\nl\xfc\x9c"
      "F\xf9 j\xa8P\x19.",
      Errc::kTruncated, "within its protocol number");
  refuse(p::saved(good, {kSix}, "big"), Errc::kUnsupported, "big-endian");
  refuse(p::saved(good, {}), Errc::kCorrupt, "lacks the entry archive/data/0");
  refuse(p::saved(w, {kSix}), Errc::kUnsupported, "not hold a dictionary");
  refuse(p::saved("}", {}), Errc::kUnsupported, "holds no tensors");
  refuse(p::saved(p::dict({p::text("w"), w, p::text("w"), w}), {kSix}), Errc::kCorrupt, "w twice");
  refuse(p::saved(p::dict({p::text("w\n"), w}), {kSix}), Errc::kCorrupt, "control character");
  refuse(p::saved(p::dict({p::text("\xff"), w}), {kSix}), Errc::kCorrupt, "not UTF-8");
  refuse(p::saved(p::dict({p::text(""), w}), {kSix}), Errc::kCorrupt, "empty name");
  refuse(p::saved(p::dict({p::text(std::string(600, 'n')), w}), {kSix}), Errc::kLimit, "600 bytes");
  refuse(p::saved(p::dict({"N", w}), {kSix}), Errc::kUnsupported, "neither text nor number");
  refuse(p::saved(p::global("os", "system") + "(" + p::text("id") + "tR", {}), Errc::kUnsupported,
         "os.system");
  refuse(testing::zip({{"a/data.pkl", "x"}, {"b/data.pkl", "y"}}), Errc::kCorrupt, "two folders");
  refuse(testing::zip({{"a/data.pkl", "x"}, {"a/constants.pkl", "y"}, {"a/code/z.py", ""}}),
         Errc::kUnsupported, "TorchScript");
}

TEST(StateDict, DictionariesThatHoldThemselvesOrMultiply) {
  GBC_EXPECT_ERROR(HeldStateDict(p::saved("}q\x01" + p::text("d") + "h\x01s", {})),
                   Errc::kUnsupported, "holds no model");
  // Each level holds the one below twice: 2^40 leaves in a few hundred bytes.
  std::string doubling = "}";
  for (int level = 0; level < 40; ++level)
    doubling +=
        "q\x01"
        "h\x01\x86";
  GBC_EXPECT_ERROR(HeldStateDict(p::saved("}" + p::text("x") + doubling + "s", {})),
                   Errc::kUnsupported, "holds no model");
  GBC_EXPECT_ERROR(
      HeldStateDict(p::saved("}" + p::text("x") + doubling + "s", {}), {.keep_all = true}),
      Errc::kLimit, "too deep");
}

TEST(StateDict, EveryTruncationIsRefusedAndDamageNeverCrashes) {
  const std::string good = p::saved(p::dict({p::text("a"), byte_tensor(0, {3, 2}, {1, 3}),
                                             p::text("b"), byte_tensor(0, {6}, {1})}),
                                    {kSix});
  for (std::size_t size = 0; size < good.size(); ++size)
    GBC_EXPECT_ERROR(HeldStateDict(good.substr(0, size)),
                     size < 4 && size > 0 ? Errc::kUnsupported : Errc::kTruncated, "x.pt");
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = good;
    damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
    try {
      const HeldStateDict held(damaged);
      EXPECT_EQ(held.text("a"), "adbecf");
      EXPECT_EQ(held.text("b"), "abcdef");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10'000) << "most bytes are under a CRC-32 or are structure";
}

TEST(StateDict, PublishedFilesHoldWhatTheirSafetensorsHold) {
  const std::string models = GBC_SOURCE_DIR "/../shared/data/models/";
  if (!std::filesystem::is_directory(models)) GTEST_SKIP() << models << " is absent";
  for (const std::string name : {"lenet-300-100-mnist", "resnet20-cifar10"}) {
    const auto pickled = read_state_dict(models + name + ".state_dict.pt");
    const auto plain = open_safetensors(models + name + ".safetensors");
    ASSERT_EQ(pickled.tensors.size(), plain.tensors.size());
    for (std::size_t i = 0; i < plain.tensors.size(); ++i) {
      EXPECT_EQ(pickled.tensors[i].name, plain.tensors[i].name);
      EXPECT_EQ(pickled.tensors[i].dtype, plain.tensors[i].dtype);
      EXPECT_EQ(pickled.tensors[i].shape, plain.tensors[i].shape);
      EXPECT_TRUE(to_text(pickled.tensors[i].bytes) == to_text(plain.tensors[i].bytes));
    }
  }
}

}  // namespace
}  // namespace gbcompress
