#include "settings.h"

#include <gbcompress/error.h>

#include <numeric>

#include "../common/option_text.h"

namespace gbcompress::al {

std::vector<std::string> option_names() {
  return {"split", "widths", "bridge", "pool",     "codes",   "hidden",    "decoder", "loss",
          "lr",    "lr_end", "beta2",  "pipeline", "threads", "placement", "exits"};
}

Settings read_settings(const std::map<std::string, std::string>& given, std::size_t stages,
                       bool tokens, const std::optional<ExitShape>& exits) {
  if (stages < 2)
    throw Error(Errc::kUsage,
                "strategy al: a model of one stage has no layers before its last; train it with "
                "--strategy backprop");
  const OptionText options("al", given);
  Settings s;
  const auto count = static_cast<std::int64_t>(stages - 1);
  s.split = options.whole_list("split", 1, 1'000'000);
  if (exits) {
    for (const char* option : {"split", "widths", "bridge", "pool", "codes", "hidden", "decoder"})
      if (options.given(option))
        options.refuse(option, "is the architecture's to say where that is exits:...");
    s.split = exits->split;
  }
  if (s.split.empty()) s.split = default_split(stages - 1, tokens);
  const std::int64_t named = std::accumulate(s.split.begin(), s.split.end(), std::int64_t{0});
  if (named != count)
    options.refuse("split", "names " + std::to_string(named) + " stages; this model has " +
                                std::to_string(count) + " before its last one");
  const auto widths = options.for_each("widths", 1, 65'536, s.split.size(), "components");
  s.widths.assign(widths.begin(), widths.end());
  if (s.widths.empty()) s.widths.assign(s.split.size(), 32);
  s.bridge = options.whole("bridge", s.bridge, 0, 65'536);
  s.pool = options.whole("pool", s.pool, 1, 1024);
  if (exits) {
    s.widths.assign(s.split.size(), exits->width);
    s.bridge = exits->bridge;
    s.pool = exits->pool;
  }
  s.forms = exits ? exits->forms
                  : read_forms(given, [&](const std::string& option, const std::string& rule) {
                      options.refuse(option, rule);
                    });
  const std::string loss = options.text("loss", "nats");
  if (loss != "nats" && loss != "mse") options.refuse("loss", "must be nats or mse");
  s.loss = loss == "mse" ? CodeLoss::kMse : CodeLoss::kNats;
  s.lr = options.number("lr", s.lr, 1e-9, 10);
  s.lr_end = options.number("lr_end", s.lr, 0, 10);
  s.beta2 = options.number("beta2", s.beta2, 0, 0.999999);
  s.pipeline = options.whole("pipeline", 0, 0, 1) == 1;
  s.threads = options.whole("threads", 1, 1, 64);
  if (s.threads > 1 && !s.pipeline)
    options.refuse("threads",
                   "above 1 needs pipeline=1: without it a component waits for the "
                   "one before");
  s.placement = options.whole_list("placement", 0, 65'535);
  if (!s.placement.empty() && !s.pipeline)
    options.refuse("placement", "needs pipeline=1: without it every rank computes all components");
  if (!s.placement.empty() && s.placement.size() != s.split.size() + 1)
    options.refuse("placement", "has " + std::to_string(s.placement.size()) +
                                    " ranks; this model has " + std::to_string(s.split.size()) +
                                    " components and the last stage");
  s.exits = options.whole("exits", 0, 0, 1'000'000'000);
  return s;
}

}  // namespace gbcompress::al
