#include "format/dataset/idx.h"

#include "base/checked.h"
#include "format/gzip.h"
#include "gbcompress/error.h"

namespace gbcompress {

IdxArray read_idx(const std::filesystem::path& path) {
  MaybeGzip file(path);
  const std::string& label = file.label();
  const auto magic = file.read(4);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0})
    throw Error(Errc::kCorrupt, label + " is not an IDX file: it does not begin with two zeros");
  if (magic[2] != std::byte{0x08})
    throw Error(Errc::kUnsupported, label + " holds elements of IDX type " +
                                        std::to_string(std::to_integer<int>(magic[2])) +
                                        ", only unsigned bytes (8) are read");
  const int rank = std::to_integer<int>(magic[3]);
  if (rank == 0) throw Error(Errc::kCorrupt, label + " declares no dimensions");
  if (rank > 4)
    throw Error(Errc::kLimit,
                label + " declares " + std::to_string(rank) + " dimensions, at most 4 are read");
  IdxArray array;
  for (int i = 0; i < rank; ++i) {
    std::int64_t side = 0;
    for (const std::byte b : file.read(4)) side = side * 256 + std::to_integer<int>(b);
    array.shape.push_back(side);
  }
  const std::string what = label + ": what it declares";
  const std::int64_t size = checked_elements(array.shape, what.c_str());
  if (size > kMaxIdxBytes) throw Error(Errc::kLimit, label + " declares more than 4 GiB");
  array.values = file.read(static_cast<std::uint64_t>(size));
  file.expect_end();
  return array;
}

}  // namespace gbcompress
