// What the compiler and the standard library's templates call, in place of a C++ run time. None of
// it is visible outside of libgbz: the library is linked into one object whose names are local.
#include <hwy/targets.h>
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

#include "base/fresh_memory.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "call.h"
#include "format/file_kind.h"

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* const memory =
      gbz::current ? gbz::current->arena.allocate(bytes, static_cast<std::size_t>(alignment))
                   : nullptr;
  if (!memory) gbz::out_of_memory();
  return memory;
}
void* operator new(std::size_t bytes) { return operator new(bytes, std::align_val_t(16)); }
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* memory) noexcept { gbz::current->arena.release(memory); }
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  operator delete(memory);
}

// Tables that are made when they are first used, by whichever thread comes first.
extern "C" {
int __cxa_guard_acquire(std::uint64_t* guard) {
  auto* const state = reinterpret_cast<unsigned char*>(guard);  // byte 0: made, byte 1: in work
  for (;;) {
    if (__atomic_load_n(&state[0], __ATOMIC_ACQUIRE)) return 0;
    if (!__atomic_exchange_n(&state[1], 1, __ATOMIC_ACQUIRE)) {
      if (!__atomic_load_n(&state[0], __ATOMIC_ACQUIRE)) return 1;
      __atomic_store_n(&state[1], 0, __ATOMIC_RELEASE);
      return 0;
    }
  }
}
void __cxa_guard_release(std::uint64_t* guard) {
  auto* const state = reinterpret_cast<unsigned char*>(guard);
  __atomic_store_n(&state[0], 1, __ATOMIC_RELEASE);
  __atomic_store_n(&state[1], 0, __ATOMIC_RELEASE);
}
void __cxa_pure_virtual() { std::abort(); }
}

namespace std {

[[noreturn]] static void refuse() {
  gbz::end_call(GBZ_LIMIT, "the file needs more elements than memory can address");
}
void __throw_length_error(const char*) { refuse(); }
void __throw_logic_error(const char*) { refuse(); }
void __throw_bad_alloc() { refuse(); }
void __throw_bad_array_new_length() { refuse(); }
void __throw_bad_function_call() { refuse(); }
void __throw_out_of_range(const char*) { refuse(); }
void __throw_out_of_range_fmt(const char*, ...) { refuse(); }

bool _Sp_make_shared_tag::_S_eq(const type_info&) noexcept { return false; }

/// Of the names in a header: FNV-1a, with the bits mixed once more at the end.
size_t _Hash_bytes(const void* bytes, size_t size, size_t seed) {
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (size_t i = 0; i < size; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3u;
  return static_cast<size_t>(hash ^ hash >> 29);
}

namespace __detail {

/// Odd numbers of buckets, about twice the elements at least.
size_t _Prime_rehash_policy::_M_next_bkt(size_t least) const {
  size_t buckets = 13;
  while (buckets < least) buckets = 2 * buckets + 1;
  _M_next_resize = buckets;
  return buckets;
}
pair<bool, size_t> _Prime_rehash_policy::_M_need_rehash(size_t buckets, size_t elements,
                                                        size_t more) const {
  if (elements + more <= _M_next_resize && buckets > 1) return {false, 0};
  return {true, _M_next_bkt(2 * (elements + more))};
}

}  // namespace __detail
}  // namespace std

namespace hwy {

void Abort(const char*, int, const char*, ...) { std::abort(); }

#if HWY_ARCH_X86
/// Of the processor and the system that saves its registers. The compiler's own tables of features
/// would be 4 kB.
int64_t SupportedTargets() {
  constexpr unsigned kFma = 1u << 12, kSaves = 1u << 27;   // leaf 1, ecx
  constexpr unsigned kAvx2 = 1u << 3 | 1u << 5 | 1u << 8;  // leaf 7, ebx: with BMI
  constexpr unsigned kAvx512 =
      1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // F DQ CD BW VL
  unsigned a = 0, b = 0, c = 0, d = 0, saved = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (kFma | kSaves)) != (kFma | kSaves)) return 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  if ((saved & 0x06) != 0x06 || (b & kAvx2) != kAvx2) return 0;
  return (saved & 0xe6) == 0xe6 && (b & kAvx512) == kAvx512 ? HWY_AVX2 | HWY_AVX3 : HWY_AVX2;
}
#else
int64_t SupportedTargets() { return HWY_STATIC_TARGET; }
#endif

ChosenTarget& GetChosenTarget() {
  static constinit ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy

namespace gbcompress {

void ask_huge_pages(void*, std::size_t) noexcept {}  // results lie in the caller's memory
void check_mapped_inputs() {}                        // nothing is mapped
int usable_processors() noexcept { return 1; }
/// Files that stand in for others (Git LFS) are told by the program alone.
void refuse_stand_in(std::span<const std::byte>, const std::string&) {}

}  // namespace gbcompress
