#pragma once
/// Included before every source of libgbz: the decoder of the C++ library, compiled without
/// exceptions, RTTI and a C++ run time
/// (docs/explanation/adr/0012-one-decoder-without-a-run-time.md). `throw` ends the call of the C
/// interface that is under way, which gives all memory of the handle back at its end; a handler is
/// never entered. libstdc++ compiles its own headers so without exceptions.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace gbcompress {
class Error;
}

namespace gbz {

/// Ends the call under way without a sentence, for a module of sdk/web: decoder.js repeats the call
/// with the module that has all parts and sentences.
[[noreturn]] void leave();

/// Ends the call under way with what is assigned.
struct Raise {
  [[noreturn]] void operator=(const gbcompress::Error& error) const;
  [[noreturn]] void operator=(const std::bad_alloc&) const;
};
/// Initializes what a handler would catch.
struct Nothing {
  template <typename T>
  operator const T&() const {
    __builtin_unreachable();
  }
};

}  // namespace gbz

// The layout tool takes the last one apart.
// clang-format off
#ifdef GBZ_WITHOUT_SENTENCES  // what is thrown is not made
#define throw ::gbz::leave(), ::gbz::Raise() =
#else
#define throw ::gbz::Raise() =
#endif
#define try if (true)
#define catch(declaration) else if (declaration = ::gbz::Nothing(); true)
// clang-format on
