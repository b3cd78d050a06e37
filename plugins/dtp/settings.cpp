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

/// What trains the feedback networks, and the options of the optimizer that is not in use.
void read_optimizer(const OptionText& options, Settings& s) {
  const std::string of_variant = s.variant == Variant::kDtp ? "sgd" : "adam";
  const std::string text = options.text("feedback_optimizer", of_variant);
  if (text != "sgd" && text != "adam")
    options.refuse("feedback_optimizer", "must be sgd or adam, not \"" + text + "\"");
  s.optimizer = text == "sgd" ? FeedbackOptimizer::kSgd : FeedbackOptimizer::kAdam;
  const bool sgd = s.optimizer == FeedbackOptimizer::kSgd;
  const std::string trained = " and variant " + options.text("variant", "dtp") +
                              " trains its feedback networks with " + (sgd ? "SGD" : "Adam") +
                              "; leave it out, or set feedback_optimizer=";
  if (!sgd && options.given("momentum"))
    options.refuse("momentum", "is an option of SGD," + trained + "sgd");
  if (sgd && options.given("feedback_beta2"))
    options.refuse("feedback_beta2", "is an option of Adam," + trained + "adam");
  const bool reconstructs = s.variant == Variant::kVanilla || s.variant == Variant::kTp;
  if (sgd && reconstructs && !options.given("feedback_lr"))
    options.refuse("feedback_optimizer",
                   "sgd needs feedback_lr with variant " + options.text("variant", "") +
                       ": learning rates chosen from the layer are those of variant dtp");
  s.momentum = options.number("momentum", s.momentum, 0, 0.9999);
  s.beta2 = options.number("feedback_beta2", s.beta2, 0, 0.999999);
  s.decay = options.number("feedback_decay", s.decay, 0, 1);
}

}  // namespace

std::vector<std::string> option_names() {
  return {"variant",
          "K",
          "sigma",
          "feedback_lr",
          "feedback_optimizer",
          "momentum",
          "feedback_beta2",
          "feedback_decay",
          "samples",
          "beta",
          "inverse",
          "symmetric",
          "shards",
          "diagnose"};
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
  read_optimizer(options, s);
  s.samples = options.whole("samples", s.samples, 1, 1000);
  const std::string form = options.text("inverse", "transpose");
  if (form != "transpose" && form != "published")
    options.refuse("inverse", "must be transpose or published, not \"" + form + "\"");
  if (form == "published") s.inverse = InverseForm::kPublished;
  s.symmetric = options.whole("symmetric", 0, 0, 1) == 1;
  s.shards = options.whole("shards", 1, 1, kMaxShards);
  if ((s.shards & (s.shards - 1)) != 0) options.refuse("shards", "must be a power of two");
  s.diagnose = options.whole("diagnose", 0, 0, 1'000'000'000);
  return s;
}

}  // namespace gbcompress::dtp
