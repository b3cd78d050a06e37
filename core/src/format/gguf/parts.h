#pragma once
/// Models that are split into several GGUF files: "m-00001-of-00003.gguf" and those beside it.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/internal.h"
#include "format/gguf/model.h"

namespace GBC_INTERNAL gbcompress {
namespace gguf {

/// What the name of a part says.
struct PartName {
  std::string stem;                     ///< "m"
  std::uint64_t number = 1, count = 1;  ///< number from 1

  /// The name of the part of that number.
  std::string file(std::uint64_t other) const;
};
/// Nothing for a name of another form.
std::optional<PartName> part_name(const std::filesystem::path& file);

/// The files of a model of which one is given.
struct PartFiles {
  /// All parts in order, where the given file is the first and all lie beside it; else the one.
  std::vector<std::filesystem::path> files;
  std::string note = {};  ///< what the user should know of the other parts
};
/// @param model  what parse() makes of the file
/// @throws Error(kCorrupt) where the metadata of the first part contradict its name
PartFiles part_files(const std::filesystem::path& path, const GgufFile& model);

/// @param part  from 0
/// @throws Error(kCorrupt) unless a file's metadata say that it is that part of so many
void check_part(const GgufFile& model, std::uint64_t part, std::uint64_t parts,
                const std::string& label);

}  // namespace gguf
}  // namespace gbcompress
