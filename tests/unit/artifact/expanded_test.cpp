/// Files that a `.gbz` expands to, at random offsets: the bytes that expand writes, from any number
/// of threads, and no more decoded than stripes around them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "artifact/originals.h"
#include "artifact/part_cache.h"
#include "artifact/sections/planes.h"
#include "base/random.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/expanded_folder.h"
#include "support/code_of.h"
#include "support/files.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
using testing::Bytes;
using testing::get_file;
using testing::put_file;
using testing::TempDir;
using testing::to_text;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// bfloat16 numbers whose exponents repeat.
std::string halves(std::size_t count, std::uint64_t seed) {
  const RandomStream random(seed, "expanded");
  std::string bytes(2 * count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    bytes[2 * i] = static_cast<char>(random.bits(i) & 255);
    bytes[2 * i + 1] = static_cast<char>(0x3C + (random.bits(i) >> 8 & 3));
  }
  return bytes;
}

/// A safetensors file of two large tensors and a small one.
std::string model(std::uint64_t seed = 1, std::size_t elements = 3'000'000) {
  const std::string first = halves(elements, seed), second = halves(elements / 2, seed + 1);
  const auto entry = [](const char* name, std::size_t begin, std::size_t bytes) {
    return "\"" + std::string(name) + "\":{\"dtype\":\"BF16\",\"shape\":[" +
           std::to_string(bytes / 2) + "],\"data_offsets\":[" + std::to_string(begin) + "," +
           std::to_string(begin + bytes) + "]}";
  };
  std::string header = "{" + entry("a", 0, first.size()) + "," +
                       entry("b", first.size(), second.size()) + "," +
                       entry("c", first.size() + second.size(), 6) + "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(length.data(), &size, sizeof size);
  return length + header + first + second + "uvwxyz";
}

void compress_exactly(const fs::path& model, const fs::path& to) {
  const TensorBundle bundle = open_tensors(model);
  ArtifactWriter writer("", "");
  for (const TensorEntry& tensor : bundle.tensors)
    writer.add_plain(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
  std::string note;
  auto originals = find_originals(bundle, note);
  digest_originals(originals.value(), bundle);
  writer.set_originals(pack_originals(originals->encode()));
  put_file(to, to_text(writer.encode()));
}

/// Compares reads at random places with the content. @return how many differ
int wrong_reads(const ExpandedFiles& files, const std::string& content, std::uint64_t seed,
                int reads) {
  const RandomStream random(seed, "reads");
  int wrong = 0;
  for (int i = 0; i < reads; ++i) {
    const auto draw = [&](int k) { return random.bits(static_cast<std::uint64_t>(3 * i + k)); };
    const std::size_t offset = draw(0) % (content.size() + 50);
    Bytes bytes(draw(1) % (draw(2) % 4 == 0 ? 1'500'000 : 5000));
    const std::size_t got = files.read(0, static_cast<std::int64_t>(offset), bytes);
    const std::string wanted =
        offset < content.size() ? content.substr(offset, bytes.size()) : std::string();
    wrong += to_text(std::span(bytes).first(got)) != wanted;
  }
  return wrong;
}

class Expanded : public ::testing::Test {
 protected:
  void SetUp() override {
    put_file(folder_ / "m.safetensors", content_);
    compress_exactly(folder_ / "m.safetensors", folder_ / "m.gbz");
  }
  const TempDir folder_;
  const std::string content_ = model();
};

TEST_F(Expanded, BytesAreTheOriginalsFromSeveralThreads) {
  for (const std::int64_t most : {kMiB, 64 * kMiB}) {
    const DecodedCache cache(most, 2);
    const ExpandedFiles files(folder_ / "m.gbz", cache);
    ASSERT_EQ(files.files().size(), 1u);
    EXPECT_EQ(files.files()[0].name, "m.safetensors");
    EXPECT_EQ(files.files()[0].bytes, static_cast<std::int64_t>(content_.size()));
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 0; seed < 4; ++seed)
      threads.emplace_back([&, seed] { wrong += wrong_reads(files, content_, seed, 60); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_LE(cache.held(), most + 4 * static_cast<std::int64_t>(kPlaneStripe));
  }
}

TEST_F(Expanded, AReadDecodesTheStripesAroundIt) {
  const DecodedCache cache(64 * kMiB, 1);
  const ExpandedFiles files(folder_ / "m.gbz", cache);
  const auto stripe = static_cast<std::int64_t>(kPlaneStripe);
  Bytes bytes(1000);
  files.read(0, 5 * stripe, bytes);  // checks the digest, and decodes what may follow meanwhile
  const std::int64_t size = files.files()[0].bytes;
  EXPECT_LE(cache.decoded(), size);
  const DecodedCache second(64 * kMiB, 1);
  const ExpandedFiles others(folder_ / "m.gbz", second);
  others.read(0, size - 1, std::span(bytes).first(1));  // nothing follows the last tensor
  const std::int64_t before = second.decoded();
  EXPECT_LE(before, 6);
  for (const std::int64_t place : {8 * stripe, 2 * stripe + 7, 5 * stripe}) {
    const std::int64_t then = second.decoded();
    others.read(0, place + 100'000, bytes);
    EXPECT_LE(second.decoded() - then, 2 * stripe) << place;
    EXPECT_GT(second.decoded(), then);
  }
  const std::int64_t again = second.decoded();
  others.read(0, 8 * stripe + 100'000, bytes);
  EXPECT_EQ(second.decoded(), again);
}

TEST_F(Expanded, DamageAndChangesAreNamed) {
  std::string packed = get_file(folder_ / "m.gbz");
  packed[packed.size() / 2] ^= 4;
  put_file(folder_ / "m.gbz", packed);
  const DecodedCache cache(kMiB, 1);
  const ExpandedFiles files(folder_ / "m.gbz", cache);
  Bytes bytes(100);
  for (int i = 0; i < 2; ++i) try {
      files.read(0, 1'000'000, bytes);
      FAIL() << "a damaged file was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("m.safetensors, tensor a: "), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("is damaged"), std::string::npos);
    }
  EXPECT_EQ(code_of([&] { files.read(0, -1, bytes); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { files.read(1, 0, bytes); }), Errc::kUsage);
  EXPECT_EQ(code_of([] { DecodedCache(kMiB - 1); }), Errc::kUsage);
}

TEST(ExpandedFolder, HasFilesInThePlaceOfTheirGbz) {
  const TempDir folder;
  put_file(folder / "m.safetensors", model(5, 1000));
  fs::create_directories(folder / "packed/sub");
  compress_exactly(folder / "m.safetensors", folder / "packed/sub/alone.gbz");
  compress_exactly(folder / "m.safetensors", folder / "packed/one.gbz");
  compress_exactly(folder / "m.safetensors", folder / "packed/two.gbz");
  put_file(folder / "packed/notes.txt", "as it is");
  put_file(folder / "packed/sub/config.json",
           "{\n  \"quantization_config\": {\"quant_method\": \"gbcompress\"},\n  \"model_type\": "
           "\"x\"}");
  const ExpandedFolder expanded(folder / "packed", DecodedCache(kMiB, 1));
  std::map<std::string, std::size_t> found;
  for (std::size_t i = 0; i < expanded.entries().size(); ++i)
    found[expanded.entries()[expanded.entries()[i].parent].name + "/" +
          expanded.entries()[i].name] = i;
  for (const char* name : {"/one.safetensors", "/two.safetensors", "sub/m.safetensors"}) {
    ASSERT_TRUE(found.contains(name)) << name;
    std::string text;
    for (const HeldBytes& piece : expanded.pieces(found.at(name), 0, kMiB))
      text += to_text(piece.bytes);
    EXPECT_EQ(text, model(5, 1000)) << name;
  }
  EXPECT_EQ(expanded.entries()[found.at("/notes.txt")].kind, FolderEntry::Kind::kFile);
  EXPECT_EQ(to_text(expanded.pieces(found.at("sub/config.json"), 0, 1000).at(0).bytes),
            "{\n  \"model_type\": \"x\"}");
  EXPECT_EQ(found.size(), 7u);
  EXPECT_EQ(code_of([&] { expanded.pieces(0, 0, 1); }), Errc::kUsage);
  put_file(folder / "packed/one.safetensors", "");
  EXPECT_EQ(code_of([&] { ExpandedFolder(folder / "packed", DecodedCache(kMiB)); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { ExpandedFolder(folder / "none", DecodedCache(kMiB)); }), Errc::kNotFound);
  fs::create_directory(folder / "empty");
  EXPECT_EQ(code_of([&] { ExpandedFolder(folder / "empty", DecodedCache(kMiB)); }),
            Errc::kNotFound);
}

TEST(PartCache, MakesEachPartOnceAndKeepsTheLatest) {
  PartCache cache(100, 0);
  std::atomic<int> made = 0;
  const auto part = [&](std::size_t n) {
    return PartCache::Part{{0, n}, 40, [&made, n] {
                             std::this_thread::sleep_for(std::chrono::milliseconds(20));
                             ++made;
                             if (n == 9) throw Error(Errc::kCorrupt, "nine");
                             const auto bytes = std::make_shared<const Bytes>(40, std::byte(n));
                             return HeldBytes{*bytes, bytes};
                           }};
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { EXPECT_EQ(cache.get(part(1)).bytes[0], std::byte(1)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  cache.get(part(2));
  cache.get(part(1));
  cache.get(part(3));  // 2 was used before 1
  EXPECT_EQ(cache.held(), 80);
  made = 0;
  cache.get(part(1));
  EXPECT_EQ(made, 0);
  cache.get(part(2));
  EXPECT_EQ(made, 1);
  EXPECT_EQ(code_of([&] { cache.get(part(9)); }), Errc::kCorrupt);
  EXPECT_EQ(code_of([&] { cache.get(part(9)); }), Errc::kCorrupt);
  EXPECT_LE(cache.held(), 80);
}

}  // namespace
}  // namespace gbcompress
