#include "format/torch/legacy_file.h"

#include "format/torch/state_dict.h"
#include "pickle_builder.h"
#include "support/files.h"

namespace gbcompress {
namespace {

namespace p = testing::pickle;
using testing::le;
using testing::to_text;

struct HeldFile {
  explicit HeldFile(const std::string& file, const OpenOptions& options = {})
      : bytes(testing::to_bytes(file)), bundle(read_state_dict(bytes, "x.pt", options)) {}
  std::string text(const std::string& name) const {
    const TensorEntry* tensor = bundle.find(name);
    return tensor ? to_text(tensor->bytes) : "absent";
  }
  testing::Bytes bytes;
  TensorBundle bundle;
};

const std::string kTwo = p::dict({p::text("b"), p::tensor("Byte", "1", 3, 1, {2}, {1}),
                                  p::text("a"), p::tensor("Short", "0", 2, 0, {2}, {1})});

std::string two() {
  return p::Old{kTwo, {{le(std::int64_t{2}), "AaBb"}, {le(std::int64_t{3}), "xyz"}}}.file();
}

void refuse(const std::string& file, Errc code, const std::string& words) {
  GBC_EXPECT_ERROR(HeldFile{file}, code, words);
}

TEST(LegacyFile, StoragesFollowTheirListWithTheirSizes) {
  const HeldFile held(two());
  EXPECT_EQ(held.text("a"), "AaBb");
  EXPECT_EQ(held.text("b"), "yz");
  EXPECT_EQ(held.bundle.find("a")->dtype, DType::kI16);
  const auto* at = held.bundle.find("a")->bytes.data();
  EXPECT_TRUE(at >= held.bytes.data() && at < held.bytes.data() + held.bytes.size())
      << "a view, no copy";
}

TEST(LegacyFile, OfTheGpuAndOfTheFirstVersions) {
  const std::string cuda = p::global("torch._utils", "_rebuild_tensor") + "(" +
                           p::storage("torch.cuda", "HalfStorage", "0", 2) + p::number(0) +
                           p::tuple({2}) + p::tuple({1}) + "tR";
  const HeldFile held(p::old_saved(p::dict({p::text("w"), cuda}), {"abcd"}, 2));
  EXPECT_EQ(held.text("w"), "abcd");
  EXPECT_EQ(held.bundle.tensors[0].dtype, DType::kF16);
}

TEST(LegacyFile, ViewsIntoAStorage) {
  const auto view = [](std::int64_t first, std::int64_t count) {
    const std::string storage = "(" + p::text("storage") + p::global("torch", "ShortStorage") +
                                p::text("0") + p::text("cpu") + p::number(3) + "(" + p::text("v") +
                                p::number(first) + p::number(count) + "ttQ";
    return p::old_saved(
        p::dict({p::text("w"), p::global("torch._utils", "_rebuild_tensor_v2") + "(" + storage +
                                   p::number(0) + p::tuple({2}) + p::tuple({1}) + "\x89" +
                                   p::ordered_dict() + "tR"}),
        {"AaBbCc"}, 2);
  };
  EXPECT_EQ(HeldFile(view(1, 2)).text("w"), "BbCc");
  refuse(view(2, 1), Errc::kCorrupt, "beyond its storage of 2 bytes");
  refuse(view(2, 2), Errc::kCorrupt, "beyond its storage of 6 bytes");
  refuse(view(-1, 2), Errc::kCorrupt, "beyond its storage");
  refuse(view(1, std::int64_t{1} << 62), Errc::kCorrupt, "beyond its storage");
}

TEST(LegacyFile, EveryTruncationIsNamed) {
  const std::string good = two();
  for (std::size_t size = 2; size < good.size(); ++size)
    refuse(good.substr(0, size), Errc::kTruncated,
           "x.pt is cut off: it ends after " + std::to_string(size) + " bytes, within its ");
  refuse(good.substr(0, good.size() - 1), Errc::kTruncated, "within its storage 1");
  refuse(good.substr(0, good.size() - 8), Errc::kTruncated, "get it again");
}

TEST(LegacyFile, WhatContradictsItself) {
  p::Old old{kTwo, {{le(std::int64_t{2}), "AaBb"}, {le(std::int64_t{3}), "xyz"}}};
  p::Old bad = old;
  bad.protocol = 1000;
  refuse(bad.file(), Errc::kUnsupported, "another protocol");
  bad = old;
  bad.little_endian = "\x89";
  refuse(bad.file(), Errc::kUnsupported, "big-endian");
  bad = old;
  bad.storages[0].first = le(std::int64_t{1});
  refuse(bad.file(), Errc::kCorrupt, "has 1 elements in storage 0, 2 were announced");
  bad.storages[0].first = le(std::int64_t{-1});
  refuse(bad.file(), Errc::kCorrupt, "has -1 elements");
  bad = old;
  bad.keys = "](" + p::text("0") + p::text("0") + "e";
  bad.storages[1] = bad.storages[0];
  refuse(bad.file(), Errc::kCorrupt, "storage 0 twice");
  bad.keys = "](" + p::text("9") + "e";
  refuse(bad.file(), Errc::kCorrupt, "storage 9, which no tensor has");
  bad.keys = "](K\1e";
  refuse(bad.file(), Errc::kCorrupt, "without a proper key");
  bad.keys = "](" + p::text("0") + "e";
  refuse(bad.file(), Errc::kCorrupt, "lacks the storage 1");
  bad.keys = "}";
  refuse(bad.file(), Errc::kCorrupt, "no list of storages");
  const std::string huge = p::tensor("Double", "0", std::int64_t{1} << 61, 0, {1}, {1});
  refuse(p::Old{p::dict({p::text("w"), huge}), {{le(std::int64_t{1} << 61), ""}}}.file(),
         Errc::kLimit, "too large");
  const std::string two_ways = p::dict({p::text("a"), p::tensor("Byte", "0", 4, 0, {4}, {1}),
                                        p::text("b"), p::tensor("Int", "0", 1, 0, {1}, {1})});
  refuse(p::old_saved(two_ways, {"abcd"}), Errc::kCorrupt, "storage 0 in two ways");
}

TEST(LegacyFile, OtherPicklesAreNotTakenForIt) {
  refuse(p::program(p::dict({p::text("w"), "K\1"})), Errc::kUnsupported,
         "a Python pickle that torch.save did not write");
}

TEST(LegacyFile, DamageNeverCrashes) {
  const std::string good = two();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = good;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      try {
        const HeldFile held(damaged);
        EXPECT_FALSE(held.bundle.tensors.empty());
      } catch (const Error&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, 4 * good.size()) << "most bytes are structure";
}

}  // namespace
}  // namespace gbcompress
