// libFuzzer's program. The environment says which target: GBC_FUZZ_TARGET=gbz. With
// GBC_FUZZ_SEEDS=FOLDER it writes the target's seeds and ends.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "fuzz/target.h"

namespace {
using namespace gbcompress::fuzz;

const Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("GBC_FUZZ_TARGET");
  if (!name) {
    std::fputs("gbc_fuzz: set GBC_FUZZ_TARGET to one of:", stderr);
    for (const Target& target : targets()) std::printf(" %s", std::string(target.name).c_str());
    std::puts("");
    std::exit(2);
  }
  try {
    chosen = &find_target(name);
    if (const char* folder = std::getenv("GBC_FUZZ_SEEDS")) {
      write_seeds(*chosen, folder);
      std::exit(0);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gbc_fuzz: %s\n", error.what());
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run_guarded(*chosen, std::as_bytes(std::span(data, size)));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return chosen->mutate ? chosen->mutate(data, size, most, seed)
                        : LLVMFuzzerMutate(data, size, most);
}
