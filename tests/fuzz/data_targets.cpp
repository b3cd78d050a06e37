// Data sets.
#include "format/dataset/cifar.h"
#include "format/dataset/idx.h"
#include "format/gzip.h"
#include "fuzz/memory_file.h"
#include "fuzz/target.h"
#include "unit/format/gzip_builder.h"
#include "unit/format/zip_builder.h"

namespace gbcompress::fuzz {
namespace {

constexpr std::size_t kMaxContent = 1 << 17;

void run_idx(Input input) { read_idx(MemoryFile(input).path()); }

std::vector<Bytes> idx_seeds() {
  const std::string labels("\0\0\x08\x01\0\0\0\x03\1\2\3", 11);
  const std::string images("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03", 16);
  return {to_bytes(labels), to_bytes(images + std::string(12, 'p')),
          to_bytes(testing::gzip(labels)), to_bytes(testing::gzip(images + std::string(12, 'p')))};
}

void run_cifar(Input input) { read_cifar10(MemoryFile(input).path()); }

std::vector<Bytes> cifar_seeds() {
  const std::string record = "\5" + std::string(kCifarPixels, 'c');
  return {to_bytes(record), to_bytes(record + record), to_bytes(testing::gzip(record))};
}

void run_gzip(Input input) {
  const MemoryFile file(input);
  MaybeGzip(file.path()).read_up_to(kMaxContent);
}

std::vector<Bytes> gzip_seeds() {
  const std::string one = testing::gzip("hello hello hello");
  return {to_bytes("plain"), to_bytes(one), to_bytes(one + testing::gzip("again")),
          to_bytes(testing::gzip(std::string(1000, 'z'), 100))};
}

}  // namespace

const std::vector<Target> data_targets = {
    {"idx", run_idx, idx_seeds},
    {"cifar", run_cifar, cifar_seeds},
    {"gzip", run_gzip, gzip_seeds, nullptr, kMaxContent},
};

}  // namespace gbcompress::fuzz
