#include <nlohmann/json.hpp>

#include "base/byte_reader.h"
#include "base/digest.h"
#include "checkpoint/manifest.h"
#include "unit/checkpoint/team.h"

/// Checkpoints made by somebody with bad intentions: every digest fits.

namespace gbcompress {
namespace {

using namespace testing;  // NOLINT: the helpers of these tests
using nlohmann::json;
namespace fs = std::filesystem;

std::string as_text(const json& value) {
  const auto cbor = json::to_cbor(value);
  return {cbor.begin(), cbor.end()};
}

std::string number(auto value) {
  Bytes bytes;
  append_number(bytes, value);
  return to_text(bytes);
}

std::string manifest_of(const std::string& body, std::uint32_t version = 1) {
  const std::string content = "GBCM" + number(version) + body;
  return content + sha256(to_bytes(content));
}

std::string shard_of(const std::string& table, const std::string& content,
                     std::uint32_t version = 1) {
  return "GBCS" + number(version) + number(std::uint64_t{20 + table.size() + content.size()}) +
         number(static_cast<std::uint32_t>(table.size())) + table + content;
}

json good_table() {
  return {{"n", 5},
          {"r", 0},
          {"s", json::array({{{"n", "a"}, {"b", 3}, {"x", xxh3_64(to_bytes("abc"))}}})}};
}

/// A manifest for a shard as it is.
json manifest_for(const std::string& shard) {
  const auto table = to_bytes(shard).size() >= 20
                         ? *reinterpret_cast<const std::uint32_t*>(shard.substr(16, 4).data())
                         : 0;
  return {{"n", 5},
          {"f", json::object()},
          {"s", json::array({{{"b", shard.size()},
                              {"d", to_hex(sha256(to_bytes(shard.substr(0, 20 + table))))}}})}};
}

class Forgery : public ::testing::Test {
 protected:
  /// What opening them gives; kFailure for a checkpoint that is accepted.
  Errc code_of(const std::string& manifest, const std::string& shard) {
    const fs::path folder = dir_ / "step-000000000005";
    fs::create_directories(folder);
    put_file(folder / "manifest", manifest);
    put_file(folder / "rank-00000.shard", shard);
    try {
      const auto reader = CheckpointReader::open(dir_.path());
      for (const auto& section : reader.sections(0)) reader.read(0, section.name);
      return Errc::kFailure;
    } catch (const Error& error) {
      message_ = error.what();
      return error.code();
    }
  }
  Errc code_of_table(const json& table, const std::string& content = "abc") {
    const std::string shard = shard_of(as_text(table), content);
    return code_of(manifest_of(as_text(manifest_for(shard))), shard);
  }
  Errc code_of_manifest(const json& manifest) {
    return code_of(manifest_of(as_text(manifest)), shard_of(as_text(good_table()), "abc"));
  }
  TempDir dir_;
  std::string message_;
};

TEST_F(Forgery, ThePatternIsAccepted) {
  EXPECT_EQ(code_of_table(good_table()), Errc::kFailure);
  EXPECT_EQ(code_of_manifest(manifest_for(shard_of(as_text(good_table()), "abc"))), Errc::kFailure);
}

TEST_F(Forgery, TablesAreRefused) {
  const auto refuse = [&](const std::string& pointer, const json& value, const char* words,
                          Errc code = Errc::kCorrupt) {
    json table = good_table();
    table[json::json_pointer(pointer)] = value;
    EXPECT_EQ(code_of_table(table), code) << pointer << " " << value;
    EXPECT_NE(message_.find(words), std::string::npos) << message_;
  };
  refuse("/n", 6, "another rank or step");
  refuse("/r", 1, "another rank or step");
  refuse("/r", "0", "an integer was expected");
  refuse("/z", 1, "header key 'z' is unknown", Errc::kUnsupported);
  refuse("/s", 3, "an array was expected");
  refuse("/s/0/n", "", "name is not allowed");
  refuse("/s/0/n", std::string(513, 'a'), "name is not allowed");
  refuse("/s/0/n", "a\n", "name is not allowed");
  refuse("/s/0/n", "\xff", "not UTF-8");
  refuse("/s/0/b", -1, "a size below 0");
  refuse("/s/0/b", 2, "do not fill it");
  refuse("/s/0/b", 4, "do not fill it");
  refuse("/s/0/b", std::int64_t{1} << 62, "do not fill it");
  refuse("/s/0/x", 1, "the digest of a does not fit");
  refuse("/s/0/q", 1, "header key 'q' is unknown", Errc::kUnsupported);
  json twice = good_table();
  twice["s"].push_back(twice["s"][0]);
  EXPECT_EQ(code_of_table(twice, "abcabc"), Errc::kCorrupt);
  EXPECT_NE(message_.find("two sections of one name"), std::string::npos) << message_;
  json wrapping = good_table();  // sizes whose sum goes around
  wrapping["s"] = json::array();
  for (int i = 0; i < 4; ++i)
    wrapping["s"].push_back({{"n", std::to_string(i)}, {"b", std::int64_t{1} << 62}, {"x", 0}});
  EXPECT_EQ(code_of_table(wrapping, ""), Errc::kCorrupt);
  EXPECT_NE(message_.find("a shard is too large"), std::string::npos) << message_;
  for (const char* key : {"n", "r", "s"}) {
    json table = good_table();
    table.erase(key);
    EXPECT_EQ(code_of_table(table), Errc::kCorrupt);
  }
}

TEST_F(Forgery, ManifestsAreRefused) {
  const json good = manifest_for(shard_of(as_text(good_table()), "abc"));
  const auto refuse = [&](const std::string& pointer, const json& value, const char* words,
                          Errc code = Errc::kCorrupt) {
    json manifest = good;
    manifest[json::json_pointer(pointer)] = value;
    EXPECT_EQ(code_of_manifest(manifest), code) << pointer << " " << value;
    EXPECT_NE(message_.find(words), std::string::npos) << message_;
  };
  refuse("/n", -1, "a step that is not possible");
  refuse("/n", std::int64_t{1'000'000'000'000}, "a step that is not possible");
  refuse("/n", 6, "holds the manifest of step 6");
  refuse("/f", json::array(), "a map was expected");
  refuse("/f/x", 1, "text was expected");
  refuse("/f/x", std::string((1 << 20) + 1, 'a'), "a fact is too long");
  refuse("/f/", "x", "a fact's name is not allowed");
  refuse("/s", json::array(), "a number of shards that is not possible");
  refuse("/s/0/b", 1, "damaged");
  refuse("/s/0/b", -1, "damaged");
  refuse("/s/0/d", "", "a digest of another length");
  refuse("/s/0/d", std::string(64, '0'), "damaged");
  refuse("/s/0/e", 1, "is unknown", Errc::kUnsupported);
  json many = good;
  many["s"].push_back(good["s"][0]);
  EXPECT_EQ(code_of_manifest(many), Errc::kCorrupt);
  EXPECT_NE(message_.find("rank-00001.shard does not exist"), std::string::npos) << message_;
}

TEST_F(Forgery, DeclaredNumbersAreBoundedBeforeMemoryIsTaken) {
  const std::string shard = shard_of(as_text(good_table()), "abc");
  const std::string huge("\x9b\x40\0\0\0\0\0\0\0", 9), many("\x9a\0\x01\0\x01", 5);
  const std::string start(
      "\xa3\x61"
      "f\xa0\x61n\x05\x61s",
      9);
  EXPECT_EQ(code_of(manifest_of(start + huge), shard), Errc::kCorrupt);
  EXPECT_EQ(code_of(manifest_of(start + many + std::string(70'000, '\0')), shard), Errc::kCorrupt);
  EXPECT_NE(message_.find("not possible"), std::string::npos) << message_;
  EXPECT_EQ(code_of(manifest_of(std::string("\xa1\x61"
                                            "f\xbb\x7f\0\0\0\0\0\0\0",
                                            12)),
                    shard),
            Errc::kCorrupt);
  EXPECT_EQ(code_of(manifest_of(std::string("\xa1\x61"
                                            "f\xba\0\0\x27\x11",
                                            8) +
                                std::string(20'000, '\x60')),
                    shard),
            Errc::kCorrupt);
  EXPECT_NE(message_.find("too many facts"), std::string::npos) << message_;
  EXPECT_EQ(code_of(std::string((16 << 20) + 1, 'x'), shard), Errc::kCorrupt);
  EXPECT_NE(message_.find("at most 16777216 are read"), std::string::npos) << message_;
  std::string large_table = shard;
  large_table.replace(16, 4, number(std::uint32_t{0xffffffff}));
  EXPECT_EQ(code_of(manifest_of(as_text(manifest_for(shard))), large_table), Errc::kCorrupt);
  EXPECT_NE(message_.find("declares a table of 4294967295 bytes"), std::string::npos) << message_;
}

/// A later format is not damage: going back to an older checkpoint would lose work silently.
TEST_F(Forgery, LaterVersionsAreNotTakenForDamage) {
  const std::string shard = shard_of(as_text(good_table()), "abc");
  EXPECT_EQ(code_of(manifest_of(as_text(manifest_for(shard)), 2), shard), Errc::kUnsupported);
  const std::string later = shard_of(as_text(good_table()), "abc", 9);
  EXPECT_EQ(code_of(manifest_of(as_text(manifest_for(later))), later), Errc::kUnsupported);
  EXPECT_NE(message_.find("has version 9, this gbcompress reads version 1"), std::string::npos);
}

/// Whatever is accepted must at least be well formed; nothing crashes.
TEST_F(Forgery, EveryFlippedBitBehindFittingDigests) {
  const std::string table = as_text(good_table());
  const std::string shard = shard_of(table, "abc");
  const std::string body = as_text(manifest_for(shard));
  int accepted = 0;
  for (std::size_t bit = 0; bit < 8 * body.size(); ++bit) {
    std::string bad = body;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    accepted += code_of(manifest_of(bad), shard) == Errc::kFailure;
  }
  EXPECT_EQ(accepted, 0);  // every number and digest there is checked against the rest
  for (std::size_t bit = 0; bit < 8 * table.size(); ++bit) {
    std::string bad = table;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    const std::string forged = shard_of(bad, "abc");
    accepted += code_of(manifest_of(as_text(manifest_for(forged))), forged) == Errc::kFailure;
  }
  EXPECT_LE(accepted, 8);  // other names of the section
}

}  // namespace
}  // namespace gbcompress
