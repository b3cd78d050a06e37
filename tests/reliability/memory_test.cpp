// Every allocation of the readers fails in turn, once or from there on. What comes of it is
// std::bad_alloc or Error, or the right result; never a crash, a block that is lost, or a file that
// is half written.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>

#include "format/dataset/cifar.h"
#include "format/dataset/idx.h"
#include "format/gzip.h"
#include "format/model_folder.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/exported_program.h"
#include "format/torch/state_dict.h"
#include "gbcompress/checkpoint.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "golden/samples.h"
#include "reliability/failing_memory.h"
#include "support/files.h"
#include "unit/format/gzip_builder.h"
#include "unit/format/pickle_builder.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
namespace p = testing::pickle;
using testing::FailingMemory;
using testing::put_file;
using testing::TempDir;

/// FNV-1a of what was read.
class Sum {
 public:
  void add(std::span<const std::byte> bytes) noexcept {
    for (const std::byte byte : bytes)
      value_ = (value_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  }
  void add(std::string_view text) noexcept { add(std::as_bytes(std::span(text))); }
  std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

using Read = std::function<std::uint64_t()>;

/// @return whether it ended as without a fault, 0 where it threw
std::uint64_t run(const Read& read, long first, bool forever) {
  try {
    const FailingMemory memory(first, forever);
    return read();
  } catch (const std::bad_alloc&) {
  } catch (const Error&) {
  }
  return 0;
}

/// Every allocation with GBC_EVERY_ALLOCATION=1, else one of `kStride`: all of them take minutes.
long stride() {
  constexpr long kStride = 11;
  return std::getenv("GBC_EVERY_ALLOCATION") ? 1 : kStride;
}

long faults = 0;

/// @param after  looks whether anything was left behind, after each
void every_allocation(
    const Read& read, const std::function<void()>& after = [] {}) {
  const std::uint64_t expected = read();
  ASSERT_EQ(read(), expected);
  for (const bool forever : {false, true}) {
    long refused = 0;
    for (long first = forever ? stride() / 2 : 0;; first += stride()) {
      SCOPED_TRACE("allocation " + std::to_string(first) + (forever ? " and all after it" : ""));
      // What libraries make once and keep is theirs; a block that is lost is lost every time.
      long lost = 0;
      for (int time = 0; time < 3; ++time) {
        const long held = testing::held_blocks();
        const std::uint64_t found = run(read, first, forever);
        lost = testing::held_blocks() - held;
        ASSERT_TRUE(found == 0 || found == expected) << "a failure was taken for data";
        refused += found == 0 && time == 0;
        after();
        if (lost == 0) break;
      }
      ASSERT_EQ(lost, 0) << "blocks are lost";
      ++faults;
      if (testing::failed_allocations() == 0) break;
      ASSERT_LT(first, 200'000);
    }
    EXPECT_GT(refused, 0);
  }
}

class Memory : public ::testing::Test {
 protected:
  static void TearDownTestSuite() { std::printf("%ld allocations failed\n", faults); }
};

std::uint64_t sum_of(const TensorBundle& bundle) {
  Sum sum;
  for (const TensorEntry& tensor : bundle.tensors) {
    sum.add(tensor.name);
    sum.add(tensor.bytes);
  }
  for (const std::string& note : bundle.notes) sum.add(note);
  return sum.value();
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(GBC_SOURCE_DIR) / "tests/golden/v2"))
    if (entry.path().extension() == ".gbz") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

DecodeOptions one_thread() {
  DecodeOptions options = samples::place_all();
  options.threads = 1;
  return options;
}

TEST_F(Memory, OfEveryKindOfArtifact) {
  const auto files = golden_files();
  ASSERT_GE(files.size(), 20u);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file);
    every_allocation([&] {
      Sum sum;
      const auto reader = ArtifactReader::open(file);
      reader.verify();
      for (std::size_t i = 0; i < reader.tensors().size(); ++i)
        sum.add(decode_tensor(reader, i, one_thread()));
      return sum.value();
    });
  }
}

TEST_F(Memory, OfExpandingLeavesNoHalfFile) {
  for (const char* name : {"coded_small", "residual_lanes", "generators"}) {
    SCOPED_TRACE(name);
    const fs::path file =
        fs::path(GBC_SOURCE_DIR) / "tests/golden/v2" / (std::string(name) + ".gbz");
    TempDir dir, other;
    const fs::path out = dir / "out.safetensors";
    decode_to_file(ArtifactReader::open(file), other / "out", true, one_thread());
    const std::string whole = testing::get_file(other / "out");
    every_allocation(
        [&] {
          decode_to_file(ArtifactReader::open(file), out, true, one_thread());
          return std::uint64_t{1};
        },
        [&] {
          ASSERT_EQ(dir.files(), 1u) << "a temporary file stays";
          const std::string found = testing::get_file(out);
          ASSERT_TRUE(found == "old" || found == whole) << found.size() << " bytes";
          put_file(out, "old");
        });
  }
}

TEST_F(Memory, OfTensorFiles) {
  const std::string tensors = p::dict(
      {p::text("fc.weight"), p::tensor("Float", "0", 4, 0, {2, 2}, {1, 2}), p::text("fc.bias"),
       p::tensor("Half", "1", 3, 1, {2}, {1}), p::text("epoch"), p::number(7)});
  const std::vector<std::string> storages = {std::string(16, 'a'), "bbccee"};
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}})";
  const std::string config =
      R"({"config":{"w":{"path_name":"weight_0","is_param":true,"use_pickle":false,)"
      R"("tensor_meta":{"dtype":1,"layout":7,"sizes":[{"as_int":2},{"as_int":3}],)"
      R"("requires_grad":false,"device":{"type":"cpu","index":null},)"
      R"("strides":[{"as_int":3},{"as_int":1}],"storage_offset":{"as_int":0}}}}})";
  TempDir dir;
  put_file(dir / "a.safetensors", testing::le(std::uint64_t{header.size()}) + header + "abcdef");
  put_file(dir / "a.pt", p::saved(tensors, storages));
  put_file(dir / "old.pt",
           p::old_saved(p::dict({p::text("w"), p::tensor("Short", "0", 8, 0, {2, 4}, {4, 1})}),
                        {std::string(16, 'q')}, 2));
  put_file(dir / "a.pt2", testing::zip({{"m/archive_format", "pt2"},
                                        {"m/models/model.json", "{}"},
                                        {"m/data/weights/weight_0", "abcdef"},
                                        {"m/data/weights/model_weights_config.json", config}}));
  put_file(dir / "model.safetensors.index.json", R"({"weight_map":{"a":"a.safetensors"}})");
  for (const char* name :
       {"a.safetensors", "a.pt", "old.pt", "a.pt2", "model.safetensors.index.json"}) {
    SCOPED_TRACE(name);
    every_allocation([&] { return sum_of(open_tensors(dir / name)); });
  }
}

TEST_F(Memory, OfData) {
  const std::string images("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03", 16);
  TempDir dir;
  put_file(dir / "idx", images + std::string(12, 'p'));
  put_file(dir / "idx.gz", testing::gzip(images + std::string(12, 'p')));
  put_file(dir / "cifar", "\5" + std::string(kCifarPixels, 'c'));
  for (const char* name : {"idx", "idx.gz"})
    every_allocation([&] {
      Sum sum;
      const IdxArray array = read_idx(dir / name);
      sum.add(array.values);
      return sum.value();
    });
  every_allocation([&] {
    Sum sum;
    const CifarRecords records = read_cifar10(dir / "cifar");
    sum.add(records.pixels);
    return sum.value();
  });
}

TEST_F(Memory, OfCheckpoints) {
  TempDir dir;
  CheckpointWriter(dir.path(), {})
      .save(3, std::vector{CheckpointSection{"a", testing::to_bytes("abc")}}, {{"m", "1"}});
  every_allocation([&] {
    const auto reader = CheckpointReader::open(dir.path());
    Sum sum;
    sum.add(reader.read(0, "a"));
    return sum.value();
  });
}

}  // namespace
}  // namespace gbcompress
