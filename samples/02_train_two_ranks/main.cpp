// The five verbs on several ranks: each learns from its own part of every batch, and all end with
// the same g-nets. One rank, two in one shell, or under a launcher:
//   train_two_ranks
//   train_two_ranks --rank 1 --world 2 & train_two_ranks --rank 0 --world 2
//   torchrun --standalone --no-python --nproc-per-node=2 train_two_ranks
#include <torch/torch.h>

#include <cstdio>

#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "gbcompress/ranks.h"

namespace {

constexpr std::int64_t kBatch = 64;  // of all ranks together
constexpr int kEpochs = 60;

void train(gbcompress::Group& group, const char* path) {
  // Second: every rank builds the same model; a seed of one's own would give every rank another.
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(64, 128), torch::nn::ReLU(),
                              torch::nn::Linear(128, 64), torch::nn::ReLU(),
                              torch::nn::Linear(64, 10));
  const gbcompress::Data data = gbcompress::open_data("digits");

  // Third: the bottleneck is told of the group. Nothing else about the five verbs changes.
  gbcompress::PluginHost plugins;
  plugins.load_installed();
  gbcompress::BottleneckOptions options;
  options.gnet.tile_weights = 400;
  options.gnet.hidden = {12};
  options.gnet_optimizer = {.lr = 3e-2, .weight_decay = 0.01};
  gbcompress::GenomicBottleneck bottleneck(*model, plugins.registry(), options, &group);
  if (gbcompress::speaks_for_all()) std::printf("%s", bottleneck.describe().c_str());

  // Fourth: this rank's rows of each batch. backward() averages the gradients over the ranks, so
  // that step() does the same on all of them.
  const std::int64_t rows = kBatch / group.world(), own = rows * group.rank();
  const std::int64_t steps = kEpochs * (data.train.size() / kBatch);
  std::int64_t step = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::int64_t first = 0; first + kBatch <= data.train.size(); first += kBatch) {
      const auto part = data.train.range(first + own, rows);
      bottleneck.zero_grad();
      bottleneck.predict_weights();
      torch::nn::functional::cross_entropy(model->forward(part.inputs), part.targets).backward();
      bottleneck.backward();
      bottleneck.step(gbcompress::schedule_factor(gbcompress::Schedule::kOneCycle, step++, steps));
    }
  }

  // Fifth: g-nets that live on one rank are brought together; then one rank is enough.
  bottleneck.finish();
  const std::int64_t sent = group.traffic().bytes();
  const auto all_sent = group.all_gather(std::to_string(sent));
  if (group.rank() != 0) return;
  const auto bytes = bottleneck.save(path, {.overwrite = true});
  const torch::NoGradGuard no_grad;
  const auto held_out = data.test.range(0, data.test.size());
  const double right =
      model->forward(held_out.inputs).argmax(1).eq(held_out.targets).sum().item<double>();
  std::printf("%lld bytes, %.1f %% of %lld held-out digits right\n", static_cast<long long>(bytes),
              100 * right / static_cast<double>(data.test.size()),
              static_cast<long long>(data.test.size()));
  for (std::size_t r = 0; r < all_sent.size(); ++r)
    std::printf("rank %zu sent %s bytes\n", r, all_sent[r].c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  // First: who am I? Launchers say so in the environment, --rank and --world by hand.
  gbcompress::LaunchFlags flags;
  const char* path = "digits.gbz";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--rank")
      flags.rank = value, ++i;
    else if (word == "--world")
      flags.world = value, ++i;
    else if (word == "--master")
      flags.master = value, ++i;
    else
      path = argv[i];
  }
  const gbcompress::Launch launch = gbcompress::read_launch(flags);
  gbcompress::set_log_rank(launch.rank, launch.world);
  const auto group = gbcompress::Group::open(launch);
  if (kBatch % group->world() != 0)
    throw gbcompress::Error(gbcompress::Errc::kUsage, "use 1, 2, 4, ... up to 64 ranks");
  // What one rank throws ends all of them, with its reason.
  gbcompress::run_together(*group, [&] { train(*group, path); });
  return 0;
} catch (const std::exception& error) {
  gbcompress::log_line(error.what());
  gbcompress::write_error_file(error.what());
  return 1;
}
