#pragma once
/// A fuzz target: one parser of untrusted bytes. Two programs drive the same targets: gbc_fuzz
/// (libFuzzer, Clang) and gbc_fuzz_plain (any compiler: a corpus and seeded mutations).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gbcompress::fuzz {

using Bytes = std::vector<std::byte>;
using Input = std::span<const std::byte>;

/// Changes data[0, size) in place and returns the new size, at most `most`.
using Mutate = std::size_t (*)(std::uint8_t* data, std::size_t size, std::size_t most,
                               unsigned seed);

struct Target {
  std::string_view name;
  /// Parses the input and uses what was accepted. Throws Error where it is refused; anything else
  /// that it throws is a finding.
  void (*run)(Input input);
  /// What mutations begin with: valid files, and files that are wrong in one known way.
  std::vector<Bytes> (*seeds)();
  Mutate mutate = nullptr;  ///< one that knows the format; null: the driver's own
  /// What the parser may hold at once by the limits it declares; 64 MiB more is a finding.
  std::size_t declared_bytes = 0;
};

/// Every target, by name. @throws std::invalid_argument for a name that is none's
std::span<const Target> targets();
const Target& find_target(std::string_view name);

/// Runs one input. Ends the process, with a sentence, where it takes more than a second of
/// processor time, or (in builds with the address sanitizer) more than 64 MiB beyond what is
/// declared.
void run_guarded(const Target& target, Input input);

/// Writes the target's seeds into a folder, one file each.
void write_seeds(const Target& target, const std::string& folder);

// Defined in the files of the same subject.
extern const std::vector<Target> artifact_targets, delta_targets, tensor_file_targets, data_targets,
    checkpoint_targets, text_targets, process_targets;

inline Bytes to_bytes(std::string_view text) {
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  return {p, p + text.size()};
}
inline std::string_view to_text(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

}  // namespace gbcompress::fuzz

/// The driver's own mutation: libFuzzer's, or that of plain_main.cpp.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
