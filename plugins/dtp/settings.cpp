#include "settings.h"

#include <gbcompress/error.h>
#include <gbcompress/ranks.h>

#include "../common/option_text.h"

namespace gbcompress::dtp {
namespace {

Variant variant_of(const OptionText& options) {
  const std::string text = options.text("variant", "dtp");
  if (text == "dtp") return Variant::kDtp;
  if (text == "vanilla") return Variant::kVanilla;
  if (text == "tp") return Variant::kTp;
  if (text == "parallel") return Variant::kParallel;
  options.refuse("variant", "must be dtp, vanilla, tp or parallel, not \"" + text + "\"");
}

}  // namespace

std::vector<std::string> option_names() {
  return {"variant",  "K",         "sigma",  "feedback_lr", "beta",
          "momentum", "symmetric", "shards", "diagnose"};
}

Settings read_settings(const std::map<std::string, std::string>& given, std::size_t stages) {
  if (stages < 2)
    throw Error(Errc::kUsage,
                "strategy dtp: a model of one stage has no layers to send targets to; train it "
                "with --strategy backprop");
  const OptionText options("dtp", given);
  Settings s;
  s.variant = variant_of(options);
  s.layers.resize(stages - 1);
  if (s.variant == Variant::kParallel)
    for (LayerSettings& layer : s.layers) layer.iterations = 1;
  const std::string things = "feedback networks, one for each stage but the first";
  const auto each = [&](const char* name, double low, double high, auto set) {
    const auto values = options.for_each(name, low, high, s.layers.size(), things);
    for (std::size_t i = 0; i < values.size(); ++i) set(s.layers[i], values[i]);
  };
  options.whole_list("K", 0, 10'000);  // integers
  each("K", 0, 1e4,
       [](LayerSettings& l, double v) { l.iterations = static_cast<std::int64_t>(v); });
  each("sigma", 1e-6, 100, [](LayerSettings& l, double v) { l.sigma = v; });
  each("feedback_lr", 1e-12, 1e3, [](LayerSettings& l, double v) { l.rate = v; });
  s.beta = options.number("beta", s.beta, 1e-6, 100);
  s.momentum = options.number("momentum", s.momentum, 0, 0.9999);
  s.symmetric = options.whole("symmetric", 0, 0, 1) == 1;
  s.shards = options.whole("shards", 1, 1, kMaxShards);
  if ((s.shards & (s.shards - 1)) != 0) options.refuse("shards", "must be a power of two");
  s.diagnose = options.whole("diagnose", 0, 0, 1'000'000'000);
  return s;
}

}  // namespace gbcompress::dtp
