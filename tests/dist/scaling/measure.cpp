// One rank that trains a net of given widths on random data, and what its steps cost:
//   gbc_dist_measure [--rank R --world N --master HOST:PORT] [--listen A] WIDTHS PLACEMENT STEPS
//                    [BATCH]
// Rank 0 prints one JSON object: seconds and their parts (medians over steps), bytes a step that
// all ranks sent together and by kind, and the sizes behind them. The batch is split among the
// ranks.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bottleneck/internals.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

double between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

std::vector<std::int64_t> widths_of(const std::string& text) {
  std::vector<std::int64_t> widths;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, '-');) widths.push_back(std::stoll(word));
  return widths;
}

torch::nn::Sequential net_of(const std::vector<std::int64_t>& widths) {
  torch::manual_seed(1);
  torch::nn::Sequential net;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    if (l > 0) net->push_back(torch::nn::ReLU());
    net->push_back(torch::nn::Linear(widths[l], widths[l + 1]));
  }
  return net;
}

/// Seconds that an all_reduce takes.
double all_reduce_seconds(Group& group, std::int64_t floats) {
  const at::Tensor probe = at::zeros({floats}, at::kFloat);
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    group.barrier();
    const auto start = Clock::now();
    group.all_reduce(probe).wait();
    best = std::min(best, between(start, Clock::now()));
  }
  return best;
}

std::string json_of(double seconds, double gnet_seconds, const Traffic& sent, Group& group,
                    const GenomicBottleneck& bottleneck, int steps) {
  const double small = all_reduce_seconds(group, 16), large = all_reduce_seconds(group, 1 << 20);
  std::ostringstream mine;
  mine << sent.bytes();
  for (int k = 0; k < kCollectives; ++k) mine << ' ' << sent[static_cast<Collective>(k)].bytes;
  std::vector<std::int64_t> totals(1 + kCollectives, 0);
  std::int64_t most = 0;
  for (const std::string& text : group.all_gather(mine.str())) {
    std::istringstream in(text);
    for (std::size_t i = 0; i < totals.size(); ++i) {
      std::int64_t bytes = 0;
      in >> bytes;
      totals[i] += bytes;
      if (i == 0) most = std::max(most, bytes);
    }
  }
  std::int64_t weights = 0;
  for (const auto& layer : bottleneck.layers()) weights += layer.weights.numel();
  std::string notes;
  for (const std::string& note : BottleneckRanks::placement_notes(bottleneck))
    notes += (notes.empty() ? "\"" : ", \"") + note + "\"";
  std::ostringstream out;
  out << "{\"world\": " << group.world() << ", \"steps\": " << steps << ", \"seconds\": " << seconds
      << ", \"gnet_seconds\": " << gnet_seconds << ", \"all_reduce_64_bytes\": " << small
      << ", \"all_reduce_4_mib\": " << large << ", \"bytes\": " << totals[0] / steps
      << ", \"busiest\": " << most / steps;
  for (int k = 0; k < kCollectives; ++k)
    out << ", \"" << collective_name(static_cast<Collective>(k))
        << "\": " << totals[static_cast<std::size_t>(k) + 1] / steps;
  out << ", \"weights\": " << weights << ", \"gnet_parameters\": " << gnet_parameters(bottleneck)
      << ", \"plain_parameters\": " << plain_parameters(bottleneck) << ", \"notes\": [" << notes
      << "]}";
  return out.str();
}

/// One of placement_name(). @throws std::runtime_error
Placement placement_of(const std::string& name) {
  for (const Placement each : {Placement::kAuto, Placement::kOwner, Placement::kReplicated})
    if (placement_name(each) == name) return each;
  throw std::runtime_error("no placement is called " + name);
}

void measure(Group& group, const Words& words) {
  const std::vector<std::int64_t> widths = widths_of(words.at(0));
  const int steps = std::stoi(words.at(2));
  const std::int64_t batch = words.size() > 3 ? std::stoll(words[3]) : 64;
  const std::int64_t rows = batch / group.world();
  torch::nn::Sequential net = net_of(widths);
  PluginHost plugins;
  plugins.load_installed();
  BottleneckOptions options;
  options.placement = placement_of(words.at(1));
  GenomicBottleneck bottleneck(*net, plugins.registry(), options, &group);

  const auto x = torch::randn({batch, widths.front()});
  const auto y = torch::randint(widths.back(), {batch});
  const auto own_x = x.narrow(0, rows * group.rank(), rows);
  const auto own_y = y.narrow(0, rows * group.rank(), rows);
  Traffic before;
  Clock::time_point start;
  double gnet_seconds = 1e9;
  for (int step = -1; step < steps;
       ++step) {  // the first one makes connections, and is not counted
    if (step == 0) {
      group.barrier();
      before = group.traffic();
      start = Clock::now();
    }
    const auto a = Clock::now();
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    const auto b = Clock::now();
    torch::nn::functional::cross_entropy(net->forward(own_x), own_y).backward();
    const auto c = Clock::now();
    bottleneck.backward();
    bottleneck.step();
    gnet_seconds = std::min(gnet_seconds, between(a, b) + between(c, Clock::now()));
  }
  const double seconds = between(start, Clock::now());
  const std::string json =
      json_of(seconds, gnet_seconds, group.traffic() - before, group, bottleneck, steps);
  if (group.rank() == 0) std::printf("%s\n", json.c_str());
}

int run(const Words& arguments) {
  LaunchFlags flags;
  GroupOptions options;
  Words words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--rank")
      flags.rank = arguments.at(++i);
    else if (word == "--world")
      flags.world = arguments.at(++i);
    else if (word == "--master")
      flags.master = arguments.at(++i);
    else if (word == "--listen")
      options.listen = arguments.at(++i);
    else if (word == "--timeout")
      options.timeout = std::chrono::seconds(std::stoi(arguments.at(++i)));
    else
      words.push_back(word);
  }
  const Launch launch = read_launch(flags);
  set_log_rank(launch.rank, launch.world);
  const auto group = Group::open(launch, options);
  run_together(*group, [&] { measure(*group, words); });
  return 0;
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) try {
  return gbcompress::run({argv + 1, argv + argc});
} catch (const std::exception& error) {
  gbcompress::log_line(error.what());
  return 1;
}
