// A module, a loss and a schedule of your own, compressed while it learns: the five verbs on
// quantized weights. The model reads a digit row by row, as no built-in architecture does.
//   own_loop [OUT.gbz]
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

#include "gbcompress/bottleneck.h"
#include "gbcompress/model.h"

namespace {

constexpr std::int64_t kBatch = 64, kEpochs = 40;

struct RowReader : torch::nn::Module {
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(8, 48).batch_first(true)};
  torch::nn::Linear head{48, 10};
  RowReader() {
    register_module("lstm", lstm);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& pictures) {  // [n, 64]: 8 rows of 8 pixels
    return head(std::get<0>(lstm(pictures.view({-1, 8, 8}))).select(1, 7));
  }
};

/// A loss of your own: squared hinge. Its gradient is all that the bottleneck sees of it.
at::Tensor hinge(const at::Tensor& scores, const at::Tensor& labels) {
  const at::Tensor sign = torch::one_hot(labels, 10) * 2 - 1;
  return torch::relu(1 - sign * scores).square().sum(1).mean();
}

double right_percent(RowReader& model, const gbcompress::Dataset& data) {
  const torch::NoGradGuard no_grad;
  const gbcompress::Batch all = data.range(0, data.size());
  return 100 *
         model.forward(all.inputs).argmax(1).eq(all.targets).to(at::kDouble).mean().item<double>();
}

void run(double lambda, const char* path, const gbcompress::Data& data) {
  torch::manual_seed(0);
  RowReader model;
  const std::int64_t batches = data.train.size() / kBatch, steps = kEpochs * batches;

  // First: every parameter becomes integers times a step size, and the loss has a rate term. Modes
  // that use g-nets want the plugins' registry here; this one needs no layer type.
  gbcompress::GenomicBottleneck bottleneck(
      model, gbcompress::Registry(),
      {.mode = gbcompress::WeightMode::kQuantized,
       .quantized_optimizer = {.lr = 1e-2, .beta2 = 0.999, .weight_decay = 0},
       .rate = {.lambda = lambda, .predictions = data.train.size(), .steps = steps}});

  // Second: the loop. What the model computes with is what the file would hold.
  for (std::int64_t step = 0; step < steps; ++step) {
    const gbcompress::Batch batch = data.train.range(step % batches * kBatch, kBatch);
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    hinge(model.forward(batch.inputs), batch.targets).backward();
    bottleneck.backward();
    bottleneck.step(0.5 +
                    0.5 * std::cos(M_PI * static_cast<double>(step) / static_cast<double>(steps)));
  }

  // Third: the end, and the file.
  bottleneck.finish();
  const std::int64_t bytes = bottleneck.save(path, {.arch = "row-reader", .overwrite = true});
  std::printf("%6.2f  %7lld  %5.1f  %6.2f %%\n", lambda, static_cast<long long>(bytes),
              bottleneck.ratio().bytes, right_percent(model, data.test));

  // Fourth: two ways back. load() fills a bottleneck of the same kind, to train on; expand() needs
  // no model at all. Both give the weights that were measured, bit for bit.
  RowReader loaded;
  gbcompress::GenomicBottleneck other(loaded, gbcompress::Registry(),
                                      {.mode = gbcompress::WeightMode::kQuantized});
  other.load(path);
  const auto expanded =
      gbcompress::expand(gbcompress::ArtifactReader::open(path), gbcompress::Registry());
  for (std::size_t i = 0; i < expanded.size(); ++i)
    if (!at::equal(expanded[i].tensor, other.tensors()[i].tensor) ||
        !at::equal(expanded[i].tensor, bottleneck.tensors()[i].tensor))
      throw std::runtime_error(expanded[i].info.name + " came back as something else");
}

}  // namespace

int main(int argc, char** argv) try {
  const gbcompress::Data data = gbcompress::open_data("digits");
  std::printf("lambda    bytes  ratio     right\n");
  for (const double lambda : {0.3, 1.0, 3.0}) run(lambda, argc > 1 ? argv[1] : "rows.gbz", data);
  return 0;
} catch (const std::exception& x) {
  std::fprintf(stderr, "%s\n", x.what());
  return 1;
}
