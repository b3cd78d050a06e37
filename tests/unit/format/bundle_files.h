#pragma once
/// The files that a bundle's container and tensors make.

#include <span>
#include <string>
#include <vector>

#include "format/payload.h"
#include "gbcompress/error.h"

namespace gbcompress::testing {

/// @throws Error(kNotFound) for a bundle without a container
inline std::vector<std::string> files_of(const TensorBundle& bundle) {
  const TensorEntry* entry = bundle.find(kContainerName);
  if (!entry) throw Error(Errc::kNotFound, "the bundle has no container");
  const Container container = Container::decode(entry->bytes, bundle.tensors.size(), "x");
  std::vector<std::string> files;
  for (const ContainerFile& file : container.files) {
    std::string text;
    const auto append = [&](std::span<const std::byte> bytes) {
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    const auto skeleton = std::span<const std::byte>(file.skeleton);
    std::uint64_t from = 0;
    for (const Hole& hole : file.holes) {
      append(skeleton.subspan(from, hole.before));
      from += hole.before;
      const TensorEntry& tensor = bundle.tensors[hole.tensor];
      append(payload_of(hole, tensor.bytes, tensor.dtype, "x"));
    }
    append(skeleton.subspan(from));
    files.push_back(std::move(text));
  }
  return files;
}

}  // namespace gbcompress::testing
