// SHA-256 against NIST's vectors: the examples of FIPS 180-4 and their additions, and of the
// Cryptographic Algorithm Validation Program some of SHA256ShortMsg, SHA256LongMsg and all of
// SHA256Monte.
#include <algorithm>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/sha256_blocks.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::to_bytes;

/// FIPS 180-4 by one compression function, with a padding of this test's own.
std::string hash_by(Sha256Blocks blocks, std::string message) {
  const std::uint64_t bits = 8 * message.size();
  message += '\x80';
  while (message.size() % 64 != 56) message += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) message += static_cast<char>(bits >> shift);
  Sha256State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto bytes = to_bytes(message);
  blocks(state, bytes.data(), bytes.size() / kSha256Block);
  std::string digest;
  for (const std::uint32_t word : state)
    for (int shift = 24; shift >= 0; shift -= 8) digest += static_cast<char>(word >> shift);
  return digest;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// By the class, and by each compression function that this processor has.
void expect_digest(const std::string& message, const std::string& digest) {
  EXPECT_EQ(to_hex(sha256(to_bytes(message))), digest) << message.size() << " bytes";
  EXPECT_EQ(to_hex(hash_by(&sha256_blocks_portable, message)), digest) << message.size();
  if (const Sha256Blocks native = sha256_blocks_native()) {
    EXPECT_EQ(to_hex(hash_by(native, message)), digest) << message.size();
  }
}

TEST(Sha256, NistShortMessages) {
  expect_digest("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect_digest("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  for (const auto& [message, digest] : std::vector<std::pair<std::string, std::string>>{
           {"d3", "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1"},
           {"11af", "5ca7133fa735326081558ac312c620eeca9970d1e70a4b95533d956f072d1f98"},
           {"b4190e", "dff2e73091f6c05e528896c4c831b9448653dc2ff043528f6769437bc7b975c2"},
           {"74ba2521", "b16aa56be3880d18cd41e68384cf1ec8c17680c45a02b1575dc1518923ae8b0e"},
           {"5738c929c4f4ccb6", "963bb88f27f512777aab6c8b1a02c70ec0ad651d428f870036e1917120fb48bf"},
           {"5a86b737eaea8ee976a0a24da63e7ed7eefad18a101c1211e2b3650c5187c2a8"
            "a650547208251f6d4237e661c7bf4c77f335390394c37fa1a9f9be836ac28509",
            "42e61e174fbb3897d6dd6cef3dd2802fe67b331953b06114a65c772859dfc1aa"},
           {"bd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
           {"c98c8e55", "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504"}})
    expect_digest(from_hex(message), digest);
}

TEST(Sha256, NistLongMessages) {
  expect_digest(from_hex("451101250ec6f26652249d59dc974b7361d571a8101cdfd36aba3b5854d3ae08"
                         "6b5fdd4597721b66e3c0dc5d8c606d9657d0e323283a5217d1f53f2f284f57b8"
                         "5c8a61ac8924711f895c5ed90ef17745ed2d728abd22a5f7a13479a462d71b56"
                         "c19a74a40b655c58edfe0a188ad2cf46cbf30524f65d423c837dd1ff2bf462ac"
                         "4198007345bb44dbb7b1c861298cdf61982a833afc728fae1eda2f87aa2c9480"
                         "858bec"),
                "3c593aa539fdcdae516cdf2f15000f6634185c88f505b39775fb9ab137a10aa2");
  expect_digest(std::string(1000, '\0'),
                "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53");
  expect_digest(std::string(1000, 'A'),
                "c2e686823489ced2017f6059b8b239318b6364f6dcd835d0a519105a1eadd6e4");
  expect_digest(std::string(1005, 'U'),
                "f4d62ddec0f3dd90ea1380fa16a5ff8dc4c54b21740650f24afc4120903552b0");
  expect_digest(std::string(1'000'000, '\0'),
                "d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025");
  expect_digest(std::string(1'000'000, 'a'),
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Where the padding begins to need a block of its own.
TEST(Sha256, LengthsAroundABlock) {
  expect_digest(std::string(55, '\0'),
                "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
  expect_digest(std::string(56, '\0'),
                "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
  expect_digest(std::string(57, '\0'),
                "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
  expect_digest(std::string(64, '\0'),
                "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
  // These by Python's hashlib with OpenSSL 3.0.
  expect_digest(std::string(63, 'a'),
                "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
  expect_digest(std::string(64, 'a'),
                "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  expect_digest(std::string(119, 'a'),
                "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
  expect_digest(std::string(120, 'a'),
                "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c");
}

/// SHAVS section 6.4: 100,000 messages, each the three digests before it.
std::vector<std::string> monte_carlo(std::string (*hash)(const std::string&)) {
  std::string seed = from_hex("6d1e72ad03ddeb5de891e572e2396f8da015d899ef0e79503152d6010a3fe691");
  std::vector<std::string> digests;
  for (int count = 0; count < 100; ++count) {
    std::string a = seed, b = seed, c = seed;
    for (int i = 0; i < 1000; ++i) {
      std::string next = hash(a + b + c);
      a = std::move(b), b = std::move(c), c = std::move(next);
    }
    seed = c;
    digests.push_back(to_hex(seed));
  }
  return digests;
}

TEST(Sha256, NistMonteCarlo) {
  const auto by_class =
      monte_carlo([](const std::string& message) { return sha256(to_bytes(message)); });
  EXPECT_EQ(by_class[0], "e93c330ae5447738c8aa85d71a6c80f2a58381d05872d26bdd39f1fcd4f2b788");
  EXPECT_EQ(by_class[1], "2e78f8c8772ea7c9331d41ed3f9cdf27d8f514a99342ee766ee3b8b0d0b121c0");
  EXPECT_EQ(by_class[99], "6a912ba4188391a78e6f13d88ed2d14e13afce9db6f7dcbf4a48c24f3db02778");
  EXPECT_EQ(monte_carlo([](const std::string& message) {
              return hash_by(&sha256_blocks_portable, message);
            }),
            by_class);
}

TEST(Sha256, InstructionsGiveTheBitsOfPortableCode) {
  const Sha256Blocks native = sha256_blocks_native();
  if (!native) GTEST_SKIP() << "this processor has no SHA instructions";
  std::uint32_t noise = 1;
  std::vector<std::byte> blocks(64 * 37 + 1);
  for (std::byte& byte : blocks)
    byte = static_cast<std::byte>((noise = noise * 1664525 + 1013904223) >> 24);
  for (std::size_t count = 0; count <= 37; ++count) {
    Sha256State expected{};
    for (std::size_t i = 0; i < 8; ++i) expected[i] = noise = noise * 1664525 + 1013904223;
    Sha256State found = expected;
    // Blocks need no alignment.
    sha256_blocks_portable(expected, blocks.data() + count % 2, count);
    native(found, blocks.data() + count % 2, count);
    EXPECT_EQ(found, expected) << count << " blocks";
  }
}

TEST(Sha256, PartsGiveTheSameAsTheWhole) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t n = 0; n <= text.size(); n += 7)
    for (std::size_t cut = 0; cut <= n; ++cut) {
      Sha256 hash;
      hash.update(to_bytes(text.substr(0, cut)));
      hash.update({});
      hash.update(to_bytes(text.substr(cut, n - cut)));
      ASSERT_EQ(hash.finish(), hash_by(&sha256_blocks_portable, text.substr(0, n)))
          << n << " bytes cut at " << cut;
    }
}

TEST(Sha256, OfAFile) {
  const testing::TempDir folder;
  const auto path = folder / "file";
  testing::put_file(path, "abc");
  EXPECT_EQ(file_digest(path), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_THROW(file_digest(folder / "none"), Error);
}

TEST(Secrets, AreEqualOnlyWhereEveryByteIs) {
  const std::string secret("\x00token\xff", 7);
  EXPECT_TRUE(equal_in_fixed_time(secret, secret));
  EXPECT_TRUE(equal_in_fixed_time("", ""));
  EXPECT_FALSE(equal_in_fixed_time(secret, secret.substr(0, 6)));
  for (std::size_t i = 0; i < secret.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = secret;
      other[i] = static_cast<char>(other[i] ^ 1 << bit);
      EXPECT_FALSE(equal_in_fixed_time(secret, other)) << i << ", bit " << bit;
    }
}

}  // namespace
}  // namespace gbcompress
