#include "format/torch/pickle.h"

#include <bit>
#include <random>

#include "pickle_builder.h"
#include "support/files.h"

namespace gbcompress {
namespace {

namespace p = testing::pickle;
using Kind = PickleValue::Kind;
using testing::le;

PickleTree run(const std::string& program) {
  return read_pickle(testing::to_bytes(program), "data.pkl");
}

PickleValue root(const std::string& body) {
  const auto tree = run(p::program(body));
  return tree.values[tree.root];
}

TEST(Pickle, Numbers) {
  EXPECT_EQ(root("K\xff").number, 255);
  EXPECT_EQ(root("M\xff\xff").number, 65535);
  EXPECT_EQ(root("J" + le(-2)).number, -2);
  EXPECT_EQ(root(std::string("\x8a\x00", 2)).number, 0);
  EXPECT_EQ(root("\x8a\x01\xff").number, -1);
  EXPECT_EQ(root(std::string("\x8a\x02\xff\x00", 4)).number, 255);
  EXPECT_EQ(root(p::number(std::int64_t{-1} << 62)).number, std::int64_t{-1} << 62);
  EXPECT_EQ(root("\x8a\x09" + std::string(9, '\1')).kind, Kind::kOpaque) << "wider than 64 bits";
  EXPECT_EQ(std::bit_cast<double>(root("G\xc0\x04" + std::string(6, '\0')).number), -2.5);
  EXPECT_EQ(root("\x8b" + le(std::int32_t{2}) + "\xff\xff").number, -1);
  EXPECT_EQ(root("\x88").number, 1);
  EXPECT_EQ(root("\x89").kind, Kind::kBool);
  EXPECT_EQ(root("N").kind, Kind::kNone);
}

TEST(Pickle, TextsContainersAndMemo) {
  EXPECT_EQ(root(p::text("key")).text, "key");
  EXPECT_EQ(root("\x8c\x03key").text, "key");
  EXPECT_EQ(root("\x8d" + le(std::uint64_t{3}) + "key").text, "key");
  EXPECT_EQ(root("K\1K\2\x86").items.size(), 2u);
  EXPECT_EQ(root("U\x03key").text, "key") << "Python 2";
  EXPECT_EQ(root("T" + le(3u) + "key").text, "key");
  EXPECT_EQ(root("C\x03\x01\x02\x03").kind, Kind::kBytes);
  EXPECT_EQ(root("\x8f(K\1K\2\x90").items.size(), 2u);
  EXPECT_EQ(root("(K\1K\2\x91").kind, Kind::kSet);
  EXPECT_EQ(root("K\1"
                 "2\x86")
                .items.size(),
            2u)
      << "DUP";
  EXPECT_EQ(root("K\1K\2"
                 "0")
                .number,
            1)
      << "POP";
  EXPECT_EQ(root("K\1(K\2K\3"
                 "1")
                .number,
            1)
      << "POP_MARK";
  EXPECT_EQ(root("(K\1K\2K\3t").items.size(), 3u);
  EXPECT_EQ(root("](K\1K\2eK\3a").items.size(), 3u);
  EXPECT_EQ(root("}" + p::text("a") + "K\1s(" + p::text("b") + "K\2u").items.size(), 4u);
}

TEST(Pickle, MemoGivesTheSameValue) {
  for (const std::string& pair : {std::string("q\x05"
                                              "h\x05"),
                                  "r" + le(70000u) + "j" + le(70000u), "\x94h" + le('\0')}) {
    const auto list = root("K\7" + pair + "\x86");
    ASSERT_EQ(list.items.size(), 2u);
    EXPECT_EQ(list.items[0], list.items[1]);
  }
}

TEST(Pickle, GlobalsByLinesAndByStack) {
  EXPECT_EQ(root(p::global("torch", "FloatStorage")).text, "torch.FloatStorage");
  const auto stacked = root(p::text("torch") + p::text("HalfStorage") + "\x93");
  EXPECT_EQ(stacked.text, "torch.HalfStorage");
  EXPECT_EQ(stacked.dtype, DType::kF16);
}

TEST(Pickle, NamesThatRunProgramsAreNames) {
  const std::string call = "(" + p::text("echo pwned") + "tR";
  for (const auto& [module, name] : {std::pair{"os", "system"},
                                     {"builtins", "eval"},
                                     {"builtins", "print"},
                                     {"code.config", "Config"},
                                     {"posix", "system"}}) {
    const auto object = root(p::global(module, name) + call);
    EXPECT_EQ(object.kind, Kind::kObject);
    EXPECT_EQ(object.text, std::string(module) + "." + name);
  }
  EXPECT_EQ(root(p::text("os") + p::text("system") + "\x93").text, "os.system");
  GBC_EXPECT_ERROR(root(p::global("torch", std::string(300, 'x'))), Errc::kCorrupt,
                   "above 256 bytes");
}

TEST(Pickle, MemoryIsBoundedWhateverIsRecalled) {
  // A list of pairs of which every call makes a dictionary.
  std::string list = "](";
  for (int i = 0; i < 50'000; ++i) list += "NN\x86";
  std::string bomb = list +
                     "e\x94"
                     "0" +
                     p::global("collections", "OrderedDict") +
                     "\x94"
                     "0";
  for (int i = 0; i < 5'000; ++i) bomb += std::string("h\1h\0\x85R0", 7);
  GBC_EXPECT_ERROR(root(bomb + "N"), Errc::kLimit, "needs more than 512 MiB of memory");
  // Every name is one value.
  std::string names = p::text(std::string(200, 'm')) + "\x94" + "0";
  for (int i = 0; i < 1000; ++i) names += std::string("h\0h\0\x93", 5);
  EXPECT_EQ(root("(" + names + "t").items[0], root("(" + names + "t").items[999]);
}

TEST(Pickle, ObjectsOfOtherClassesAreKeptAsNamesAndNeverMade) {
  const auto called = root(p::global("argparse", "Namespace") + ")R}" + p::text("lr") + "K\1sb");
  EXPECT_EQ(called.kind, Kind::kObject);
  EXPECT_EQ(called.text, "argparse.Namespace");
  EXPECT_EQ(called.items.size(), 2u) << "arguments and state";
  EXPECT_EQ(root(p::global("m", "C") + ")\x81").text, "m.C");
  EXPECT_EQ(root(p::global("m", "C") + ")}\x92").items.size(), 2u);
  EXPECT_EQ(root(p::global("m", "C") + ")\x81(K\1K\2u").kind, Kind::kDict) << "of dict's kind";
  EXPECT_EQ(root(p::global("m", "C") + ")\x81(K\1K\2e").kind, Kind::kList) << "of list's kind";
  EXPECT_EQ(root(p::global("builtins", "set") + "(](K\1K\2etR").items.size(), 2u);
  EXPECT_EQ(root(p::global("m", "make_class") + ")R)\x81").text, "m.make_class");
  EXPECT_EQ(root(p::global("m", "f") + ")R)R").text, "m.f") << "called twice";
}

TEST(Pickle, DictionariesOfPythonsOwnClasses) {
  EXPECT_EQ(root(p::global("collections", "defaultdict") + "(" + p::global("builtins", "dict") +
                 "tR(K\1K\2u")
                .items.size(),
            2u);
  EXPECT_EQ(root(p::global("collections", "OrderedDict") + "(](](" + p::text("a") + "K\1eetR")
                .items.size(),
            2u)
      << "Python 2";
  EXPECT_EQ(root(p::global("torch", "Size") + "((K\2K\3ttR").items.size(), 2u);
}

TEST(Pickle, InstructionsThatAreNotReadAreRefused) {
  // INST, OBJ, EXT1, EXT2, EXT4, PERSID, the textual ones of protocol 0, NEXT_BUFFER.
  for (const char* code : {"i", "o", "\x82", "\x83", "\x84", "P", "I", "S", "l", "d", "g", "p", "F",
                           "L", "V", "\x97", "\x98"})
    GBC_EXPECT_ERROR(root(std::string(code) + "K\1"), Errc::kUnsupported, "pickle instruction");
  GBC_EXPECT_ERROR(run("\x80\x06."), Errc::kUnsupported, "protocol above 5");
}

TEST(Pickle, AllowedNamesAreOnlyCalledAsTorchDoes) {
  const std::string broken = "broken pickle";
  GBC_EXPECT_ERROR(root(p::global("torch", "FloatStorage") + ")R"), Errc::kCorrupt, broken);
  GBC_EXPECT_ERROR(root(p::global("torch", "float32") + ")R"), Errc::kCorrupt, broken);
  GBC_EXPECT_ERROR(root(p::global("collections", "OrderedDict") + "(K\1tR"), Errc::kCorrupt,
                   broken);
  GBC_EXPECT_ERROR(root(p::global("torch._utils", "_rebuild_tensor_v2") + ")R"), Errc::kCorrupt,
                   broken);
  GBC_EXPECT_ERROR(root(p::global("torch._utils", "_rebuild_parameter") + "(K\1tR"), Errc::kCorrupt,
                   broken);
  GBC_EXPECT_ERROR(root("K\1)R"), Errc::kCorrupt, broken);
  GBC_EXPECT_ERROR(root(p::global("collections", "OrderedDict") + "K\1R"), Errc::kCorrupt, broken);
  GBC_EXPECT_ERROR(root(p::text("storage") + "Q"), Errc::kCorrupt, broken);
  GBC_EXPECT_ERROR(root("(K\1K\1K\1K\1K\1tQ"), Errc::kCorrupt, broken);
  GBC_EXPECT_ERROR(root(p::storage("torch", "float32", "0", 1)), Errc::kCorrupt, broken);
  GBC_EXPECT_ERROR(root(p::storage("torch", "FloatStorage", "", 1)), Errc::kCorrupt, broken);
  GBC_EXPECT_ERROR(root("K\1}b"), Errc::kCorrupt, "attributes to something that has none");
}

TEST(Pickle, NonsenseIsRefused) {
  GBC_EXPECT_ERROR(root(""), Errc::kCorrupt, "more values than there are");
  GBC_EXPECT_ERROR(root("K\1K\2"), Errc::kCorrupt, "leaves values behind");
  GBC_EXPECT_ERROR(root("(K\1"), Errc::kCorrupt, "leaves values behind");
  GBC_EXPECT_ERROR(root("t"), Errc::kCorrupt, "did not begin");
  GBC_EXPECT_ERROR(root("K\1(\x85"), Errc::kCorrupt, "more values than there are");
  GBC_EXPECT_ERROR(root("h\x05"), Errc::kCorrupt, "did not remember");
  GBC_EXPECT_ERROR(root("K\1K\1a"), Errc::kCorrupt, "no list or dictionary");
  GBC_EXPECT_ERROR(root("](K\1K\1u"), Errc::kCorrupt, "no list or dictionary");
  GBC_EXPECT_ERROR(root("}(K\1u"), Errc::kCorrupt, "key without a value");
  GBC_EXPECT_ERROR(root("K\1K\1\x93"), Errc::kCorrupt, "name of a global");
  GBC_EXPECT_ERROR(root("X" + le(~0u) + "few"), Errc::kTruncated, "ends at");
  GBC_EXPECT_ERROR(root("\x8d" + le(~std::uint64_t{0})), Errc::kTruncated, "ends at");
  GBC_EXPECT_ERROR(root("\x95" + le(std::uint64_t{100})), Errc::kTruncated, "frame");
  GBC_EXPECT_ERROR(run(""), Errc::kTruncated, "ends at");
}

TEST(Pickle, BoundsOfTheMachine) {
  GBC_EXPECT_ERROR(root(std::string(2000, '(')), Errc::kLimit, "nested too deep");
  GBC_EXPECT_ERROR(root(std::string(kMaxPickleValues + 1, 'N')), Errc::kLimit, "stacks more than");
  GBC_EXPECT_ERROR(run("X" + le(~0u) + std::string(kMaxPickleBytes, 'N')), Errc::kLimit, "64 MiB");
}

TEST(Pickle, EveryTruncationIsRefusedAndDamageNeverCrashes) {
  const std::string good = p::program(
      p::dict({p::text("a"), p::tensor("Float", "0", 6, 0, {2, 3}, {3, 1}), p::text("b"), "K\1"}));
  run(good);
  for (std::size_t size = 0; size < good.size(); ++size)
    GBC_EXPECT_ERROR(run(good.substr(0, size)), Errc::kTruncated, "data.pkl ends");
  std::mt19937 random(5);
  for (int round = 0; round < 50'000; ++round) {
    std::string damaged = good;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      const auto tree = run(damaged);
      EXPECT_LT(tree.root, tree.values.size());
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace gbcompress
