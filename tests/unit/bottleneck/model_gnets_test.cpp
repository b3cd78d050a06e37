#include "gbcompress/model_gnets.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "gbcompress/bottleneck.h"
#include "support/layer_types.h"

namespace gbcompress {
namespace {

NamedParameter shaped(const std::string& name, const std::string& module,
                      std::vector<std::int64_t> shape) {
  NamedParameter parameter;
  parameter.info.name = name;
  parameter.info.local_name = "weight";
  parameter.info.module_type = module;
  parameter.info.shape = std::move(shape);
  parameter.info.std = 1;
  return parameter;
}

BottleneckOptions options_of(std::int64_t tile) {
  BottleneckOptions options;
  options.min_elements = 150;
  options.gnet.tile_weights = tile;
  options.gnet.hidden = {3};
  return options;
}

TEST(ModelGNets, IsThatOfTheBottleneck) {
  const Registry registry = test_registry();
  torch::nn::Sequential net(torch::nn::Linear(31, 44), torch::nn::BatchNorm1d(44),
                            torch::nn::Linear(44, 25), torch::nn::Linear(25, 31),
                            torch::nn::Linear(31, 44), torch::nn::Linear(44, 3));
  net[4]->as<torch::nn::Linear>()->weight = net[0]->as<torch::nn::Linear>()->weight;
  GenomicBottleneck bottleneck(*net, registry, options_of(144));
  std::vector<NamedParameter> names = named_parameters(*net);
  for (NamedParameter& name : names) name.tensor = at::Tensor();
  const ModelGNets gnets = model_gnets(names, registry, options_of(144));

  ASSERT_EQ(gnets.tensors.size(), bottleneck.tensors().size());
  std::size_t generated = 0;
  std::vector<std::int64_t> in_bank(gnets.banks.size(), 0);
  for (const GNetTensor& tensor : gnets.tensors) {
    EXPECT_EQ(tensor.spec.has_value(), tensor.kind == GNetTensor::Kind::kGenerated);
    if (!tensor.spec) continue;
    const auto& layer = bottleneck.layers().at(generated++);
    EXPECT_EQ(layer.name, tensor.info.name);
    EXPECT_EQ(layer.spec, *tensor.spec);
    EXPECT_EQ(tensor.first_gnet, in_bank[tensor.bank]) << "tensors follow one another in a bank";
    in_bank[tensor.bank] += layer.theta.size(0);
  }
  EXPECT_EQ(generated, bottleneck.layers().size());
  EXPECT_GE(generated, 3u);
  for (std::size_t b = 0; b < gnets.banks.size(); ++b) EXPECT_EQ(gnets.banks[b].gnets, in_bank[b]);
  EXPECT_EQ(gnets.gnet_parameters, gnet_parameters(bottleneck));
  EXPECT_EQ(gnets.plain_parameters, plain_parameters(bottleneck));
  const auto count = [&](GNetTensor::Kind kind) {
    return std::count_if(gnets.tensors.begin(), gnets.tensors.end(),
                         [&](const GNetTensor& t) { return t.kind == kind; });
  };
  EXPECT_EQ(count(GNetTensor::Kind::kBuffer), 3);  // mean, variance, batches seen
}

TEST(ModelGNets, NamesOfTiesAreKept) {
  std::vector<NamedParameter> names = {shaped("a", "Linear", {40, 40}),
                                       shaped("b", "Linear", {40, 40})};
  names[1].tied_to = "a";
  const ModelGNets gnets = model_gnets(names, test_registry(), options_of(100));
  EXPECT_EQ(gnets.tensors[1].kind, GNetTensor::Kind::kTied);
  EXPECT_EQ(gnets.tensors[1].tied_to, "a");
  EXPECT_EQ(gnets.trainable, 1600);
}

/// Two banks: 36 + 6 tiles of 10x10, the last ones cropped, and 5 tiles of 10x3.
ModelGNets two_banks() {
  return model_gnets({shaped("a", "Linear", {57, 58}), shaped("bias", "", {70}),
                      shaped("b", "Linear", {20, 29}), shaped("c", "Linear", {50, 3})},
                     test_registry(), options_of(100));
}

TEST(ModelGNets, EveryGNetAndEveryWeightHasOneOwner) {
  const ModelGNets gnets = two_banks();
  ASSERT_EQ(gnets.banks.size(), 2u);
  for (int world : {1, 2, 3, 4, 7, 64}) {
    const OwnerRows rows = owner_rows(gnets, world);
    for (const GNetTensor& tensor : gnets.tensors) {
      std::int64_t gnets = 0;
      int before = -1;
      for (const OwnerShare& share : owners_of(tensor, rows)) {
        EXPECT_GT(share.rank, before);
        EXPECT_LT(share.rank, world);
        EXPECT_GT(share.gnets, 0);
        before = share.rank;
        gnets += share.gnets;
      }
      EXPECT_EQ(gnets, tensor.spec ? tensor.spec->grid().tiles() : 0);
    }
  }
}

TEST(ModelGNets, AllRanksTogetherSendTwiceWhatIsSharedForEachOtherRank) {
  const ModelGNets gnets = two_banks();
  const std::int64_t weights = 57 * 58 + 20 * 29 + 50 * 3;
  EXPECT_EQ(gnets.banks[0].weights + gnets.banks[1].weights, weights);
  const auto sum = [&](const std::vector<Placement>& placements, int world) {
    const auto bytes = step_bytes(gnets, placements, world);
    return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  };
  constexpr auto kOwner = Placement::kOwner, kReplicated = Placement::kReplicated;
  for (int world : {1, 2, 3, 4, 8}) {
    const std::int64_t times = 2 * 4 * (world - 1);
    EXPECT_EQ(sum({kOwner, kOwner}, world), times * (weights + 70));
    EXPECT_EQ(sum({kReplicated, kReplicated}, world), times * (gnets.gnet_parameters + 70));
    EXPECT_EQ(sum({kOwner, kReplicated}, world),
              times * (57 * 58 + 20 * 29 + gnets.banks[1].parameters() + 70));
    EXPECT_EQ(sum({}, world), times * 70);
  }
}

TEST(ModelGNets, BillionsOfWeightsAreNothing) {
  std::vector<NamedParameter> names;
  for (int layer = 0; layer < 32; ++layer)
    for (const auto& shape : std::vector<std::vector<std::int64_t>>{{4096, 4096},
                                                                    {4096, 4096},
                                                                    {4096, 4096},
                                                                    {4096, 4096},
                                                                    {11008, 4096},
                                                                    {11008, 4096},
                                                                    {4096, 11008}})
      names.push_back(shaped("layer" + std::to_string(names.size()), "Linear", shape));
  const ModelGNets gnets = model_gnets(names, test_registry(), {});
  EXPECT_EQ(gnets.trainable, 32 * (4 * 4096LL * 4096 + 3 * 4096LL * 11008));
  ASSERT_EQ(gnets.banks.size(), 1u);
  const auto bytes = step_bytes(gnets, std::vector<Placement>{Placement::kOwner}, 64);
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  EXPECT_GT(*least, 0);
  EXPECT_LT(*most, 4 * 4 * gnets.trainable);
}

}  // namespace
}  // namespace gbcompress
