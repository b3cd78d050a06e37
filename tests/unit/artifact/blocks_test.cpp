#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "artifact/sections/blocks.h"
#include "artifact/sections/packing.h"
#include "artifact/sections/requantized.h"
#include "base/float16.h"
#include "base/random.h"
#include "format/gguf/make_blocks.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kTypes[] = {2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20};

std::vector<float> weights(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  RandomStream(seed, "blocks").fill_normal(values, 0, 0.02F);
  for (std::size_t i = 0; i < count; ++i) values[i] *= 1 + static_cast<float>(i / 256 % 5);
  return values;
}

/// What the reference quantization makes of weights; of a type without one, noise.
Bytes blocks_of(std::uint32_t type, std::size_t blocks, std::uint64_t seed = 1) {
  const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
  Bytes made(blocks * layout.bytes);
  if (layout.even) {
    gguf::reference_blocks(layout, gguf::Rounding::kTwice,
                           weights(blocks * static_cast<std::size_t>(layout.weights()), seed),
                           made);
    return made;
  }
  const RandomStream noise(seed, "noise");
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::byte>(noise.bits(i));
  return made;
}

Bytes noise_of(std::size_t size, std::uint64_t seed) {
  const RandomStream random(seed, "noise");
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(random.bits(i));
  return bytes;
}

TEST(Blocks, EveryBitOfABlockIsInOneField) {
  for (const std::uint32_t type : kTypes) {
    const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
    std::vector<unsigned> bits(layout.bytes);
    for (const gguf::BlockField& field : layout.all())
      for (std::size_t s = 0; s < field.count; ++s)
        for (unsigned bit = 0; bit < field.bits; ++bit) {
          std::array<std::uint8_t, gguf::kMostBlockSymbols> symbols{}, again{};
          std::array<std::uint8_t, 256> block{};
          symbols[s] = static_cast<std::uint8_t>(1U << bit);
          gguf::put_symbols(field, symbols.data(), block.data());
          gguf::get_symbols(field, block.data(), again.data());
          EXPECT_EQ(again, symbols) << type << " " << s << " " << bit;
          for (std::size_t i = 0; i < layout.bytes; ++i) {
            EXPECT_EQ(bits[i] & block[i], 0U) << type << " byte " << i;
            bits[i] |= block[i];
          }
        }
    for (std::size_t i = 0; i < layout.bytes; ++i) EXPECT_EQ(bits[i], 255U) << type << " " << i;
  }
}

TEST(Blocks, GiveBackEveryByte) {
  for (const std::uint32_t type : kTypes) {
    const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
    const std::size_t stripe = blocks_of_stripe(layout);
    for (const std::size_t blocks :
         {std::size_t{1}, std::size_t{3}, std::size_t{700}, stripe + 5}) {
      for (const bool random : {false, true}) {
        if (random && blocks > 700) continue;
        const Bytes raw =
            random ? noise_of(blocks * layout.bytes, blocks) : blocks_of(type, blocks);
        const Bytes packed = pack_blocks(raw, type, 2);
        EXPECT_EQ(unpack_blocks(packed, raw.size(), type, "x"), raw) << type << " " << blocks;
        EXPECT_EQ(pack_blocks(raw, type, 1), packed) << "threads change no byte";
      }
    }
    Bytes same(64 * layout.bytes, std::byte{0});
    EXPECT_EQ(unpack_blocks(pack_blocks(same, type, 1), same.size(), type, "x"), same);
  }
}

TEST(Blocks, TakeLessThanZstd) {
  for (const std::uint32_t type : kTypes) {
    const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
    if (!layout.even) continue;
    const Bytes raw = blocks_of(type, 400'000 / layout.bytes);
    const auto [packed, packing] = pack(raw, 1, false, {.type = type});
    EXPECT_EQ(packing, Packing::kBlocks) << type;
    const auto other = pack(raw, 1);
    EXPECT_LT(packed.size(), other.first.size() * 99 / 100) << type;
    EXPECT_LT(packed.size(), raw.size() * 97 / 100) << type;
  }
}

TEST(Blocks, OfOneValueArePackedAsTheyWere) {
  const Bytes raw(34 * 10'000, std::byte{7});
  EXPECT_EQ(pack(raw, 1, false, {.type = 8}).first.size(), pack(raw, 1).first.size());
}

TEST(Blocks, AreTensorsOfAFile) {
  const Bytes raw = blocks_of(12, 512);
  ArtifactWriter writer("", "");
  writer.add_plain("w", DType::kU8, {2, 256 * 144}, raw, 12);
  const Bytes file = writer.encode();
  const auto reader = ArtifactReader::from_bytes(file, "test");
  EXPECT_EQ(reader.tensors()[0].block_type, 12U);
  EXPECT_EQ(reader.tensors()[0].kind, TensorKind::kExact);
  EXPECT_EQ(decode_tensor(reader, 0), raw);
  EXPECT_LT(file.size(), raw.size() * 96 / 100);
}

/// Whatever a byte is changed to, the reader refuses it or gives as many bytes; it never crashes.
TEST(Blocks, DamageIsRefusedOrBounded) {
  for (const std::uint32_t type : {7U, 8U, 10U, 12U, 14U}) {
    const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
    const Bytes raw = blocks_of(type, 300);
    const Bytes packed = pack_blocks(raw, type, 1);
    for (std::size_t size = 0; size < packed.size(); size += 1 + packed.size() / 97)
      EXPECT_THROW(unpack_blocks(std::span(packed).first(size), raw.size(), type, "x"), Error);
    const RandomStream random(type, "damage");
    int refused = 0;
    for (std::uint64_t i = 0; i < 300; ++i) {
      Bytes damaged = packed;
      damaged[random.bits(2 * i) % packed.size()] ^=
          static_cast<std::byte>(1U << random.bits(2 * i + 1) % 8);
      try {
        EXPECT_EQ(unpack_blocks(damaged, raw.size(), type, "x").size(), raw.size());
      } catch (const Error&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 0);
    EXPECT_THROW(unpack_blocks(packed, raw.size() + 1, type, "x"), Error);
    EXPECT_THROW(unpack_blocks(packed, raw.size() + layout.bytes, type, "x"), Error);
    EXPECT_THROW(unpack_blocks(packed, raw.size(), 99, "x"), Error);
  }
}

Bytes elements(const std::vector<float>& values, DType dtype) {
  Bytes bytes;
  for (const float value : values) {
    const std::uint16_t half = dtype == DType::kF16 ? float_to_half(value) : float_to_bfloat(value);
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    const auto* short_first = reinterpret_cast<const std::byte*>(&half);
    if (dtype == DType::kF32)
      bytes.insert(bytes.end(), first, first + sizeof value);
    else
      bytes.insert(bytes.end(), short_first, short_first + sizeof half);
  }
  return bytes;
}

std::vector<float> numbers(const Bytes& bytes, DType dtype) {
  std::vector<float> values;
  const std::size_t size = dtype == DType::kF32 ? 4 : 2;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    if (dtype == DType::kBF16) bits <<= 16;
    values.push_back(dtype == DType::kF16 ? half_to_float(static_cast<std::uint16_t>(bits))
                                          : std::bit_cast<float>(bits));
  }
  return values;
}

TEST(Requantized, TakesTwoBytesWhereTheReferenceMadeIt) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (const std::uint32_t type : kTypes) {
      const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
      if (!layout.even) continue;
      const Bytes base =
          elements(weights(300 * static_cast<std::size_t>(layout.weights()), type), dtype);
      for (const auto rounding : {gguf::Rounding::kTwice, gguf::Rounding::kOnce}) {
        Bytes raw(300U * layout.bytes);
        gguf::reference_blocks(layout, rounding, numbers(base, dtype), raw);
        const auto section = pack_requantized(raw, type, {base, dtype}, 2);
        ASSERT_TRUE(section);
        EXPECT_EQ(section->size(), 2U) << type;
        EXPECT_EQ(unpack_requantized(*section, type, {base, dtype}, raw.size(), "x", 1), raw);
      }
    }
}

/// Scales of another search, as those under an importance matrix are.
TEST(Requantized, TakesTheScalesWhereTheseAreOthers) {
  for (const std::uint32_t type : {10U, 11U, 12U, 13U, 14U}) {
    const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
    const Bytes base =
        elements(weights(400 * static_cast<std::size_t>(layout.weights()), type), DType::kBF16);
    const std::vector<float> values = numbers(base, DType::kBF16);
    Bytes raw(400U * layout.bytes);
    gguf::reference_blocks(layout, gguf::Rounding::kTwice, values, raw);
    // A half of each block gets another value.
    const std::size_t half = type == 10 ? 80 : type == 11 ? 108 : type == 14 ? 208 : 0;
    for (std::size_t block = 0; block < 400; ++block)
      raw[block * layout.bytes + half] ^= static_cast<std::byte>(1 + block % 7);
    gguf::set_nearest_quants(layout, values, raw);
    raw[5] ^= std::byte{3};  // and one quant, or scale
    const auto section = pack_requantized(raw, type, {base, DType::kBF16}, 1);
    ASSERT_TRUE(section);
    EXPECT_LT(section->size(), raw.size() / 4) << type;
    EXPECT_EQ(unpack_requantized(*section, type, {base, DType::kBF16}, raw.size(), "x", 2), raw);
  }
}

TEST(Requantized, CorrectsSomeBlocks) {
  const gguf::BlockLayout& layout = *gguf::find_block_layout(12);
  const Bytes base = elements(weights(256 * 600, 5), DType::kF16);
  const std::vector<float> values = numbers(base, DType::kF16);
  Bytes raw(600 * 144);
  gguf::reference_blocks(layout, gguf::Rounding::kTwice, values, raw);
  for (std::size_t block = 0; block < 600; block += 40) raw[block * 144 + 6] ^= std::byte{2};
  gguf::set_nearest_quants(layout, values, raw);
  const auto section = pack_requantized(raw, 12, {base, DType::kF16}, 1);
  ASSERT_TRUE(section);
  EXPECT_LT(section->size(), 120U);
  EXPECT_EQ(unpack_requantized(*section, 12, {base, DType::kF16}, raw.size(), "x", 1), raw);
  // Of anything else it is right, too.
  const Bytes other = noise_of(raw.size(), 3);
  const auto whole = pack_requantized(other, 12, {base, DType::kF16}, 1);
  EXPECT_EQ(unpack_requantized(*whole, 12, {base, DType::kF16}, raw.size(), "x", 1), other);
}

TEST(Requantized, DamageIsRefusedOrBounded) {
  const gguf::BlockLayout& layout = *gguf::find_block_layout(13);
  const Bytes base = elements(weights(256 * 60, 5), DType::kF32);
  Bytes raw(60 * 176);
  gguf::reference_blocks(layout, gguf::Rounding::kOnce, numbers(base, DType::kF32), raw);
  for (std::size_t i = 0; i < raw.size(); i += 500) raw[i] ^= std::byte{1};
  const auto section = *pack_requantized(raw, 13, {base, DType::kF32}, 1);
  const auto read = [&](const Bytes& bytes) {
    return unpack_requantized(bytes, 13, {base, DType::kF32}, raw.size(), "x", 1);
  };
  EXPECT_EQ(read(section), raw);
  EXPECT_THROW(read({}), Error);
  for (std::size_t i = 0; i < section.size(); ++i)
    for (unsigned bit = 0; bit < 8; ++bit) {
      Bytes damaged = section;
      damaged[i] ^= static_cast<std::byte>(1U << bit);
      try {
        EXPECT_EQ(read(damaged).size(), raw.size());
      } catch (const Error&) {
      }
    }
}

/// Values that no weights have: quants are bounded, whatever the base holds.
TEST(Requantized, TakesAnyBase) {
  std::vector<float> values = weights(256 * 8, 9);
  for (std::size_t i = 0; i < values.size(); i += 37)
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(0x7f800000U + i % 3 * 0x400000U));
  for (std::size_t i = 5; i < values.size(); i += 61) values[i] = 3e38F;
  for (const std::uint32_t type : kTypes) {
    const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
    if (!layout.even) continue;
    Bytes raw(values.size() / static_cast<std::size_t>(layout.weights()) * layout.bytes);
    for (const auto rounding : {gguf::Rounding::kTwice, gguf::Rounding::kOnce})
      gguf::reference_blocks(layout, rounding, values, raw);
    gguf::set_nearest_quants(layout, values, raw);
  }
}

TEST(Requantized, IsATensorOfADelta) {
  const std::vector<float> values = weights(4 * 512, 4);
  TensorBundle bundle;
  const Bytes base = elements(values, DType::kBF16);
  bundle.tensors.push_back({"whole", DType::kBF16, {4, 512}, base});
  const BaseModel model(bundle);
  const gguf::BlockLayout& layout = *gguf::find_block_layout(14);
  Bytes raw(4 * 210);  // rows 1 and 2
  gguf::reference_blocks(layout, gguf::Rounding::kTwice,
                         std::span<const float>(numbers(base, DType::kBF16)).subspan(512, 1024),
                         raw);
  const auto part = std::span<const std::byte>(base).subspan(1024, 2048);
  ArtifactWriter writer("", "");
  writer.set_bases({model.digest()});
  writer.add_blocks("whole[1:3]", {2, 420}, 14, {"whole", DType::kBF16, {4, 512}, 512},
                    *pack_requantized(raw, 14, {part, DType::kBF16}, 1));
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "test");
  const ArtifactTensor& tensor = reader.tensors()[0];
  EXPECT_EQ(tensor.kind, TensorKind::kBlocks);
  EXPECT_EQ(tensor.source.name, "whole");
  EXPECT_EQ(tensor.source.first, 512);
  EXPECT_EQ(decode_tensor(reader, 0, {.base = base_source(reader, {&model, 1})}), raw);
  EXPECT_EQ(code_of([&] { decode_tensor(reader, 0); }), Errc::kUsage);
  ArtifactWriter wrong("", "");
  EXPECT_EQ(code_of([&] {
              wrong.add_blocks("w", {2, 420}, 14, {"whole", DType::kBF16, {4, 512}, 1025}, {});
            }),
            Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] {
              wrong.add_blocks("w", {2, 420}, 20, {"w", DType::kI8, {4, 512}, 0}, {});
            }),
            Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
