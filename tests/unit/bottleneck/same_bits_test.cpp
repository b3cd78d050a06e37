// The bits that the Python class must reproduce (sdk/python/tests/test_bottleneck_bits.py): g-nets
// of every kind, three steps with given gradients. The golden file is of the reference kernel,
// whose bits are those of every processor.
//   GBC_GNETS_OUT=FOLDER unit_bottleneck --gtest_filter='SameBits.*'    writes the files that
//   Python compares with
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "gbcompress/bottleneck.h"
#include "model/tensor_facts.h"
#include "plugins/attention/spec.h"
#include "plugins/conv/spec.h"
#include "plugins/linear/spec.h"
#include "support/files.h"

namespace gbcompress {
namespace {

/// Values of -0.5 to 0.5, the same everywhere.
at::Tensor values_of(const std::vector<std::int64_t>& shape, std::uint32_t key) {
  at::Tensor result = at::empty(shape, at::kFloat);
  float* to = result.data_ptr<float>();
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(result.numel()); ++i)
    to[i] = static_cast<float>(((i + 1 + 7919u * key) * 2654435761u) >> 8) * 0x1p-24f - 0.5f;
  return result;
}

Registry registry() {
  Registry result;
  result.stage("test", [](Registrar& r) {
    r.register_gnet_type({"attention", attention::modules()}, &attention::spec);
    r.register_gnet_type({"conv", conv::modules()}, &conv::spec);
    r.register_gnet_type({"linear", linear::modules()}, &linear::spec);
    r.register_gnet_type({"symmetric", {"Symmetric"}}, &linear::spec,
                         [](const GNetSpec& spec, const at::Tensor& tiles) {
                           const at::Tensor half = place_tiles(spec, tiles);
                           return half + half.t();
                         });
  });
  return result;
}

std::vector<NamedParameter> tensors() {
  struct Named {
    const char *path, *local, *type;
    std::vector<std::int64_t> shape;
  };
  const std::vector<Named> all = {{"fc", "weight", "Linear", {96, 120}},
                                  {"fc", "bias", "Linear", {96}},
                                  {"conv", "weight", "Conv2d", {16, 24, 3, 3}},
                                  {"attn", "in_proj_weight", "MultiheadAttention", {96, 32}},
                                  {"deep", "weight", "Linear", {64, 80}},
                                  {"low", "weight", "Linear", {64, 80}},
                                  {"xox", "weight", "Linear", {64, 80}},
                                  {"draw", "weight", "Linear", {64, 80}},
                                  {"pair", "weight", "Symmetric", {64, 64}}};
  std::vector<NamedParameter> result;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    NamedParameter entry;
    entry.info = {.name = std::string(all[i].path) + "." + all[i].local,
                  .local_name = all[i].local,
                  .module_path = all[i].path,
                  .module_type = all[i].type};
    entry.tensor = values_of(all[i].shape, i).set_requires_grad(true);
    fill_facts(entry);
    entry.trainable = entry.info.local_name != "bias";
    result.push_back(std::move(entry));
  }
  return result;
}

BottleneckOptions options(const std::string& kernel) {
  BottleneckOptions o{.gnet = {.tile_weights = 1000, .hidden = {16}},
                      .gnet_optimizer = {.lr = 3e-3},
                      .coding = Coding::kF32,
                      .seed = 7,
                      .kernel = kernel};
  o.layers = {{.match = "deep.*",
               .hidden = std::vector<std::int64_t>{20, 10},
               .row_code = parse_code("fourier:4"),
               .col_code = parse_code("latent:2")},
              {.match = "low.*", .generator = Generator::kLowRank, .rank = 4},
              {.match = "xox.*", .generator = Generator::kXox, .rank = 4},
              {.match = "draw.*", .generator = Generator::kStochastic}};
  return o;
}

/// Integers with their bits in the loss; `max_bytes` 0: at a fixed rate weight.
BottleneckOptions coded_options(const std::string& kernel, std::int64_t max_bytes) {
  BottleneckOptions o = options(kernel);
  o.gnet_optimizer.weight_decay = 0.1;
  o.coding = Coding::kCoded;
  o.rate = {.lambda = 0.5, .predictions = 2000, .steps = 12};
  if (max_bytes > 0) o.rate.max_bytes = max_bytes;
  return o;
}

/// The file after some steps.
std::vector<char> trained(const BottleneckOptions& options, const std::filesystem::path& path,
                          std::uint32_t steps = 3) {
  const Registry types = registry();
  GenomicBottleneck bottleneck(tensors(), types, options);
  EXPECT_EQ(bottleneck.layers().size(), 8u);
  for (std::uint32_t step = 0; step < steps; ++step) {
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    for (std::uint32_t i = 0; i < bottleneck.tensors().size(); ++i) {
      const NamedParameter& p = bottleneck.tensors()[i];
      at::Tensor tensor = p.tensor;
      // Of the weights too, so that their bits count; powers of two round nothing.
      if (p.trainable)
        tensor.mutable_grad() =
            values_of(p.info.shape, 100 * (step + 1) + i) * 0x1p-6f + tensor.detach() * 0x1p-4f;
    }
    bottleneck.backward();
    bottleneck.step();
  }
  bottleneck.finish();
  bottleneck.save(path, {.overwrite = true});
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SameBits, ReferenceKernelGivesTheGoldenFile) {
  const testing::TempDir folder;
  const std::filesystem::path golden =
      std::filesystem::path(GBC_SOURCE_DIR) / "tests/golden/trained/gnets.gbz";
  const std::vector<char> now = trained(options("reference"), folder / "gnets.gbz");
  std::ifstream file(golden, std::ios::binary);
  ASSERT_TRUE(file) << golden;
  const std::vector<char> before{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(now == before) << "the bits of training changed; the file has " << now.size()
                             << " bytes, the golden one " << before.size();
}

TEST(SameBits, KernelsRepeat) {
  const testing::TempDir folder;
  const char* out = std::getenv("GBC_GNETS_OUT");
  for (const std::string kernel : {"fused", "reference"}) {
    const auto path = out ? std::filesystem::path(out) / (kernel + ".gbz") : folder / "a.gbz";
    EXPECT_TRUE(trained(options(kernel), path) == trained(options(kernel), folder / "b.gbz"))
        << kernel;
  }
}

TEST(SameBits, CodedGnetsRepeat) {
  const testing::TempDir folder;
  const char* out = std::getenv("GBC_GNETS_OUT");
  // A fixed rate weight; a size that training comes near to; one that is out of reach.
  std::size_t before = 0;
  for (const std::int64_t max_bytes : {0, 8000, 1000}) {
    const std::string name = "coded-" + std::to_string(max_bytes) + ".gbz";
    const auto path =
        (out ? std::filesystem::path(out) : std::filesystem::path(folder / "")) / name;
    const BottleneckOptions o = coded_options("reference", max_bytes);
    const std::vector<char> now = trained(o, path, 12);
    EXPECT_TRUE(now == trained(o, folder / "again.gbz", 12)) << name;
    EXPECT_NE(now.size(), before) << "the size has no effect";
    before = now.size();
  }
}

}  // namespace
}  // namespace gbcompress
