/// Loads the plugin as the command line would, trains circulant-net on handwritten digits through
/// its g-nets, and writes the .gbz.   train_circulant PLUGIN.so OUT.gbz
#include <ATen/Context.h>
#include <gbcompress/train.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: train_circulant PLUGIN.so OUT.gbz\n");
    return 2;
  }
  gbcompress::PluginHost plugins;
  plugins.load(argv[1]);
  plugins.load_installed();

  at::manual_seed(0);
  const auto model = gbcompress::build_model("circulant-net", plugins.registry());
  gbcompress::BottleneckOptions options;
  options.gnet.hidden = {24};
  options.gnet_optimizer.lr = 2e-2;
  gbcompress::GenomicBottleneck bottleneck(model->tensors(), plugins.registry(), options);
  std::printf("%s", bottleneck.describe().c_str());

  const gbcompress::Data data = gbcompress::open_data("digits");
  gbcompress::train(*model, bottleneck, data.train, {.epochs = 40, .batch = 64});
  bottleneck.finish();
  const auto bytes = bottleneck.save(argv[2], {.arch = "circulant-net", .overwrite = true});
  bottleneck.load(argv[2]);
  std::printf("%lld bytes, %.1f %% of the held-out digits right\n", static_cast<long long>(bytes),
              gbcompress::evaluate(*model, data.test, data.metric));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
