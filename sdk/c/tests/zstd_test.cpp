// The decoder of zstd frames against libzstd: the same bytes of what libzstd packs, at many levels
// and sizes, and a refusal, or bytes of the stated size, of what is damaged.
#include "../freestanding/zstd.h"

#undef ZSTD_decompress
#undef ZSTD_isError

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

extern "C" {
std::size_t ZSTD_compress(void*, std::size_t, const void*, std::size_t, int);
std::size_t ZSTD_compressBound(std::size_t);
std::size_t ZSTD_decompress(void*, std::size_t, const void*, std::size_t);
unsigned ZSTD_isError(std::size_t);
}

namespace {

using Text = std::vector<std::uint8_t>;
std::mt19937 numbers(1);

/// Kind 0: noise; 1: one byte; 2: words again and again; 3: skewed bytes; 4: slowly changing
/// floats.
Text sample(int kind, std::size_t size) {
  Text text(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t n = numbers();
    switch (kind) {
      case 0:
        text[i] = static_cast<std::uint8_t>(n);
        break;
      case 1:
        text[i] = 7;
        break;
      case 2:
        text[i] = i > 200 && n % 40 ? text[i - 1 - n % 3 * 60 % i]
                                    : static_cast<std::uint8_t>(n % 26 + 'a');
        break;
      case 3:
        text[i] = static_cast<std::uint8_t>(__builtin_ctz(n | 1 << 15) * 9);
        break;
      default:
        text[i] = static_cast<std::uint8_t>(i % 4 == 3 ? 63 : i % 4 == 2 ? i / 4000 : n);
    }
  }
  return text;
}

bool same(const Text& text, int level, std::size_t& stricter) {
  Text packed(ZSTD_compressBound(text.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), level));
  Text back(text.size() + 1);
  if (gbz::zstd_frame_size(packed.data(), packed.size()) != packed.size()) return false;
  if (gbz::zstd_content_size(packed.data(), packed.size()) != text.size()) return false;
  const std::size_t n =
      gbz::zstd_decompress(back.data(), text.size(), packed.data(), packed.size());
  back.resize(text.size());
  if (n != text.size() || back != text) return false;
  // Damage: libzstd lets some bits pass that nothing reads; what it refuses is never accepted here.
  for (int i = 0; i < 20; ++i) {
    Text bad = packed;
    bad[numbers() % bad.size()] ^= static_cast<std::uint8_t>(1 << numbers() % 8);
    if (i % 4 == 0) bad.resize(numbers() % bad.size());
    Text ours(text.size()), theirs(text.size());
    const std::size_t a = gbz::zstd_decompress(ours.data(), ours.size(), bad.data(), bad.size());
    const std::size_t b = ZSTD_decompress(theirs.data(), theirs.size(), bad.data(), bad.size());
    if (gbz::is_zstd_error(a)) {
      stricter += ZSTD_isError(b) == 0;
      continue;
    }
    if (ZSTD_isError(b) || a != b || ours != theirs) return false;
  }
  return true;
}

}  // namespace

int main() {
  std::size_t count = 0, stricter = 0;
  for (const int level : {-5, 1, 3, 6, 9, 13, 17, 19})
    for (int kind = 0; kind < 5; ++kind)
      for (const std::size_t size :
           {0, 1, 5, 60, 255, 256, 257, 1000, 20'000, 131'072, 131'073, 400'000}) {
        if (level > 9 && size > 100'000 && kind != 4) continue;
        if (!same(sample(kind, size), level, stricter)) {
          std::printf("level %d, kind %d, %zu bytes differ\n", level, kind, size);
          return 1;
        }
        ++count;
      }
  std::printf("%zu frames, %zu of %zu damaged ones refused that libzstd accepts\n", count, stricter,
              20 * count);
  return count < 300;
}
