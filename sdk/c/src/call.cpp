#include "call.h"

#include "gbcompress/error.h"

namespace gbz {

constinit GBZ_THREAD_LOCAL Call* current = nullptr;

void* Arena::allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t above = sizeof(Block) + alignment;
  if (bytes > SIZE_MAX - above || bytes + above > most_ - taken_) return nullptr;
  void* const begin = allocator_.allocate(allocator_.context, bytes + above);
  if (!begin) return nullptr;
  const auto first = reinterpret_cast<std::uintptr_t>(begin) + sizeof(Block);
  const std::uintptr_t aligned = (first + alignment - 1) / alignment * alignment;
  auto* const block = reinterpret_cast<Block*>(aligned - sizeof(Block));
  *block = {newest_, nullptr, begin, ++number_, bytes + above};
  if (newest_) newest_->newer = block;
  newest_ = block;
  taken_ += block->bytes;
  return reinterpret_cast<void*>(aligned);
}

void Arena::unlink(Block* block) {
  if (block->older) block->older->newer = block->newer;
  (block->newer ? block->newer->older : newest_) = block->older;
  taken_ -= block->bytes;
  allocator_.release(allocator_.context, block->begin);
}

void Arena::release(void* memory) {
  if (memory) unlink(reinterpret_cast<Block*>(static_cast<char*>(memory) - sizeof(Block)));
}

void Arena::release_since(std::uint64_t number) {
  while (newest_ && newest_->number > number) unlink(newest_);
}

void set_error(gbz_error* error, gbz_status status, const char* text) {
  if (!error) return;
  error->status = status;
  const std::size_t size = std::min(std::strlen(text), sizeof error->text - 1);
  std::memcpy(error->text, text, size);
  error->text[size] = 0;
}

#ifdef __wasm__
// Of JavaScript: throws an exception there, and never returns.
extern "C" [[noreturn, clang::import_module("gbz"), clang::import_name("fail")]] void gbz_fail(
    int status, const char* text, std::size_t size);
[[noreturn]] static void fail(gbz_status status, const char* text) {
  gbz_fail(status, text, std::strlen(text));
}
#else
[[noreturn]] static void fail(gbz_status status, const char* text) {
  if (!current) std::abort();  // nothing of the decoder runs outside of a call
  current->status = status;
  set_error(current->error, status, text);
  std::longjmp(current->back, 1);
}
#endif

#ifdef GBZ_WITHOUT_SENTENCES
void leave() { fail(GBZ_UNSUPPORTED, "this call needs gbz-all.mjs"); }
gbz_status refuse(gbz_error*, gbz_status, const char*) { leave(); }
#else
void end_call(gbz_status status, const char* text) { fail(status, text); }
gbz_status refuse(gbz_error* error, gbz_status status, const char* text) {
  set_error(error, status, text);
  return status;
}
#endif

void Raise::operator=(const gbcompress::Error& error) const {
  end_call(static_cast<gbz_status>(error.code()), error.what());
}

void out_of_memory() {
  fail(GBZ_MEMORY, "the allocator has no memory left, or its limit is reached");
}
void Raise::operator=(const std::bad_alloc&) const { out_of_memory(); }

}  // namespace gbz
