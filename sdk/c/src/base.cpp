// Models that deltas were made from.
#include "artifact/base_digest.h"
#include "artifact/base_range.h"
#include "artifact/header/header.h"
#include "file.h"
#include "gbcompress/error.h"

using gbcompress::DType;
using gbcompress::Errc;
using gbcompress::Error;

namespace gbz {
namespace {

void set_base(gbz_file& file, std::span<const gbz_tensor> tensors) {
  auto base = std::make_unique<Base>();
  for (const gbz_tensor& tensor : tensors) {
    if (!tensor.name || (!tensor.shape && tensor.rank > 0) || (!tensor.data && tensor.bytes > 0) ||
        static_cast<unsigned>(tensor.dtype) > GBZ_F4)
      throw Error(Errc::kUsage, "a tensor of the base lacks its name, shape or data");
    base->entries.push_back({tensor.name,
                             static_cast<DType>(tensor.dtype),
                             {tensor.shape, tensor.shape + tensor.rank},
                             {static_cast<const std::byte*>(tensor.data), tensor.bytes}});
  }
  std::sort(base->entries.begin(), base->entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  gbcompress::BaseDigest digest;
  for (const Base::Tensor& entry : base->entries)
    digest.add(entry.name, entry.dtype, entry.shape, entry.bytes);
  const std::string found = digest.finish();
  const std::vector<std::string>& needed = file.contents->reader.bases();
  if (needed.empty()) throw Error(Errc::kUsage, "the file is no delta and has no base");
  const auto at = std::find(needed.begin(), needed.end(), found);
  if (at == needed.end())
    throw Error(Errc::kUsage, "this is another base than the one that the file was made with: " +
                                  found + " is not " + needed[0]);
  Base*& place = file.bases[at - needed.begin()];
  delete place;
  place = base.release();
}

}  // namespace

const Base::Tensor* Base::find(std::string_view name) const {
  const auto at = std::lower_bound(entries.begin(), entries.end(), name,
                                   [](const Tensor& e, std::string_view n) { return e.name < n; });
  return at != entries.end() && at->name == name ? &*at : nullptr;
}

gbcompress::BaseSource base_source(const gbz_file& file) {
  return [bases = file.bases](const gbcompress::BaseRange& range) {
    return gbcompress::bytes_of(range, bases[range.base]->find(range.name));
  };
}

}  // namespace gbz

extern "C" gbz_status gbz_set_base(gbz_file* file, const gbz_tensor* tensors, size_t count,
                                   gbz_error* error) {
  if (!file || (!tensors && count > 0))
    return gbz::refuse(error, GBZ_USAGE, "`file` or `tensors` is NULL");
  return gbz::set(*file, error, [&] { gbz::set_base(*file, {tensors, count}); });
}
