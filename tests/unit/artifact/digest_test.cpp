#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "artifact/expansion.h"
#include "artifact/file_digest.h"
#include "artifact/read_many.h"
#include "base/random.h"
#include "golden/craft.h"
#include "golden/samples.h"
#include "support/code_of.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using craft::Bytes;

Errc at_once(const Bytes& bytes) {
  return code_of([&] { ArtifactReader::from_bytes(bytes, "a file"); });
}

/// Of a file whose tensors are all decoded, and whose digest is taken meanwhile.
Errc while_decoding(const Bytes& bytes) {
  return code_of([&] {
    const auto reader =
        ArtifactReader::from_bytes(bytes, "a file", {}, DigestCheck::kWhileDecoding);
    if (reader.is_delta()) return reader.check_digest();
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < reader.tensors().size(); ++i) order.push_back(i);
    Expansion expansion(reader, order, {.threads = 1});
    for (std::size_t i = 0; i < order.size(); ++i) expansion.next([](auto) {});
  });
}

/// Every bit with GBC_ALL_FLIPS=1, else a sample of them.
TEST(Digest, DamageHasTheSameVerdictWheneverItIsChecked) {
  const std::size_t stride = std::getenv("GBC_ALL_FLIPS") ? 1 : 23;
  for (const auto& [name, writer] : samples::golden()) {
    Bytes bytes = writer.encode();
    ASSERT_EQ(while_decoding(bytes), Errc::kFailure) << name;
    for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += stride) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      ASSERT_EQ(while_decoding(bytes), at_once(bytes)) << name << ", bit " << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
  }
}

TEST(Digest, HandmadeFilesAreRefusedForTheSameReason) {
  for (const auto& bad : craft::bad_files()) {
    const Errc code = at_once(bad.bytes);
    if (code == Errc::kFailure) continue;
    EXPECT_EQ(while_decoding(bad.bytes), code) << bad.name;
  }
}

/// A tensor of several stripes between sections.
ArtifactWriter striped() {
  ArtifactWriter writer("", "");
  writer.set_profile(CodecProfile::kLanes);
  const RandomStream noise(1, "digest");
  const auto plain = [&](const char* name, std::uint64_t first) {
    Bytes bytes;
    for (std::uint64_t i = 0; i < 5000; ++i)
      bytes.push_back(static_cast<std::byte>(noise.bits(first + i)));
    writer.add_plain(name, DType::kU8, {5000}, bytes);
  };
  plain("before", 0);
  CodedValues values{.grid = {1600, 1500, 0, true}, .step = -70};
  values.grid.lanes = true;
  for (std::uint64_t i = 0; i < 1600 * 1500; ++i)
    values.integers.push_back(static_cast<std::int32_t>(std::lrint(1.5 * noise.normal(i))));
  writer.add_coded("w", DType::kF32, {1600, 1500}, values);
  plain("after", 5000);
  return writer;
}

TEST(Digest, AFileIsExpandedWithItsDigestOnAnyThreads) {
  const testing::TempDir folder;
  const Bytes bytes = striped().encode();
  std::ofstream(folder / "m.gbz", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const auto whole = ArtifactReader::open(folder / "m.gbz");
  for (const int threads : {1, 2, 4}) {
    const auto reader = ArtifactReader::open(folder / "m.gbz", {}, DigestCheck::kWhileDecoding);
    decode_to_file(reader, folder / "m.safetensors", true, {.threads = threads});
    EXPECT_EQ(reader.identity(), whole.identity());
    std::vector<std::byte> read(4 * 1600 * 1500);
    read_into(reader, 1, DType::kF32, read, {.threads = threads});
    EXPECT_EQ(read, decode_tensor(whole, 1));
  }
}

TEST(Digest, AFileThatWasWrittenHasTheDigestOfItsBytes) {
  const testing::TempDir folder;
  std::string seen;
  striped().write(folder / "m.gbz", false,
                  [&](const ArtifactReader& artifact) { seen = artifact.identity(); });
  EXPECT_EQ(seen, ArtifactReader::open(folder / "m.gbz").identity());
}

TEST(Digest, AFileThatChangesWhileItIsWrittenIsRefused) {
  for (const double place : {0.3, 0.7, 0.999999}) {
    const testing::TempDir folder;
    const Errc code = code_of([&] {
      striped().write(folder / "m.gbz", false, [&](const ArtifactReader& artifact) {
        std::fstream file(artifact.path(), std::ios::binary | std::ios::in | std::ios::out);
        const auto at = static_cast<std::streamoff>(
            place * static_cast<double>(std::filesystem::file_size(artifact.path())));
        file.seekg(at);
        const int byte = file.get();
        file.seekp(at);
        file.put(static_cast<char>(byte ^ 4));
        file.close();
        artifact.check_digest();
      });
    });
    EXPECT_EQ(code, Errc::kCorrupt) << place;
    EXPECT_FALSE(std::filesystem::exists(folder / "m.gbz"));
  }
}

/// A byte of a plain section: it decodes as well as any other.
TEST(Digest, NothingOfADamagedFileIsWritten) {
  const testing::TempDir folder;
  Bytes bytes = striped().encode();
  bytes[1000] ^= std::byte{4};
  for (const int threads : {1, 3}) {
    const auto reader =
        ArtifactReader::from_bytes(bytes, "a file", {}, DigestCheck::kWhileDecoding);
    EXPECT_EQ(code_of([&] {
                decode_to_file(reader, folder / "m.safetensors", false, {.threads = threads});
              }),
              Errc::kCorrupt);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    EXPECT_EQ(code_of([&] { static_cast<void>(reader.identity()); }), Errc::kCorrupt);
    EXPECT_EQ(code_of([&] { reader.check_digest(); }), Errc::kCorrupt) << "again";
  }
}

/// What its header says of sizes is not believed before the digest is.
TEST(Digest, AFileThatExpandsToMuchIsCheckedAtOnce) {
  ArtifactWriter writer("", "");
  const std::vector<std::byte> zero(4);
  writer.add_constant("c", DType::kF32, {1 << 20}, zero);
  Bytes bytes = writer.encode();
  bytes.back() ^= std::byte{1};
  EXPECT_EQ(code_of([&] {
              ArtifactReader::from_bytes(bytes, "a file", {}, DigestCheck::kWhileDecoding);
            }),
            Errc::kCorrupt);
}

TEST(Digest, KeepsUpFromSeveralThreads) {
  Bytes file = craft::to_bytes(std::string(1'000'000, 'x'));
  const std::string digest = sha256(std::span(file).first(file.size() - 16));
  std::copy_n(reinterpret_cast<const std::byte*>(digest.data()), 16, file.end() - 16);
  FileDigest shared(file, "a file");
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&shared, t] {
      for (std::size_t i = 0; i < 200; ++i) shared.keep_up(1000 + 100 * t + i);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared.identity(), to_hex(digest));
}

}  // namespace
}  // namespace gbcompress
