// One rank, as the tests of this folder start it:
//   gbc_dist_worker [--rank R --world N --master HOST:PORT --local-rank L] [--listen A]
//                   [--timeout S] [--start-timeout S] [--backend nccl] [--module FILE] SCENARIO
//                   [ARGUMENTS]
// What the scenarios do stands with them. Results go to stdout, errors to stderr as those of the
// program; the exit status is 0, 2 for usage errors, otherwise 1.
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/random.h"
#include "gbcompress/error.h"
#include "gbcompress/optimizer.h"
#include "gbcompress/ranks.h"
#include "ranks/backends/tcp_store.h"

namespace gbcompress {
namespace {

using Words = std::vector<std::string>;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void expect(bool holds, const std::string& what) {
  if (!holds) throw Error(Errc::kFailure, "a check of the test failed: " + what);
}

/// Small whole numbers, so that sums are exact in any order.
torch::Tensor numbers_of(int rank, std::int64_t count, std::int64_t salt) {
  return torch::arange(count, torch::kFloat)
      .add(static_cast<double>(salt))
      .mul(rank + 1)
      .remainder(97);
}

torch::Tensor sum_of_all(int world, std::int64_t count, std::int64_t salt) {
  torch::Tensor sum = torch::zeros({count});
  for (int r = 0; r < world; ++r) sum += numbers_of(r, count, salt);
  return sum;
}

/// Every collective against what it should give, at sizes around the awkward ones.
void check_collectives(Group& group) {
  const int rank = group.rank(), world = group.world();
  for (const std::int64_t count : {0, 1, 3, 7, 64, 1000, 70'001}) {
    torch::Tensor a = numbers_of(rank, count, 1);
    group.all_reduce(a).wait();
    expect(torch::equal(a, sum_of_all(world, count, 1)), "all_reduce");

    for (int owner = 0; owner < world; ++owner) {
      torch::Tensor c = numbers_of(rank, count, 5).to(torch::kByte);
      group.broadcast(c, owner).wait();
      expect(torch::equal(c, numbers_of(owner, count, 5).to(torch::kByte)), "broadcast");
    }

    std::vector<std::int64_t> pieces;
    std::int64_t total = 0, own_first = 0;
    for (int r = 0; r < world; ++r) {
      if (r == rank) own_first = total;
      pieces.push_back(count * (r % 3));  // rank 0 has none
      total += pieces.back();
    }
    const std::int64_t own = pieces[static_cast<std::size_t>(rank)];
    const torch::Tensor d = numbers_of(rank, total, 11);
    torch::Tensor piece = torch::empty({own});
    group.reduce_scatter(d, pieces, piece).wait();
    expect(torch::equal(piece, sum_of_all(world, total, 11).narrow(0, own_first, own)),
           "reduce_scatter");
    torch::Tensor e = torch::full({total}, -1.f);
    e.narrow(0, own_first, own).copy_(piece);
    group.all_gather(e, pieces).wait();
    expect(torch::equal(e, sum_of_all(world, total, 11)), "all_gather in pieces");
  }
  const auto texts =
      group.all_gather(std::string(static_cast<std::size_t>(rank) * 5, 'a' + rank % 26));
  for (int r = 0; r < world; ++r)
    expect(texts[static_cast<std::size_t>(r)] ==
               std::string(static_cast<std::size_t>(r) * 5, 'a' + r % 26),
           "all_gather of texts");
  expect(group.all(true) && group.any(true) && !group.any(false) && !group.all(false), "votes");
  expect(group.all(rank == 0) == (world == 1) && group.any(rank == world - 1), "votes that differ");

  // Several at once, waited for in another order.
  torch::Tensor f = numbers_of(rank, 5000, 3), g = numbers_of(rank, 50, 4),
                h = numbers_of(rank, 9, 5);
  Pending pf = group.all_reduce(f), pg = group.all_reduce(g), ph = group.broadcast(h, 0);
  ph.wait();
  pf.wait();
  pg.wait();
  expect(torch::equal(f, sum_of_all(world, 5000, 3)) && torch::equal(g, sum_of_all(world, 50, 4)) &&
             torch::equal(h, numbers_of(0, 9, 5)),
         "overlapped collectives");
  group.barrier();
}

void expect_refused(const std::string& words, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    expect(error.code() == Errc::kUsage && std::string(error.what()).find(words) != words.npos,
           std::string("a refusal that says \"") + words + "\" and not " + error.what());
    return;
  }
  expect(false, "a refusal that says " + words);
}

/// transfers: between each two ranks, several at once, of awkward sizes; counted; what is refused.
void check_transfers(Group& group) {
  const int rank = group.rank(), world = group.world();
  const Traffic before = group.traffic();
  std::int64_t sent = 0;
  for (const std::int64_t count : {0, 1, 3, 1000, 70'001}) {
    std::vector<Pending> pending;
    std::vector<std::pair<torch::Tensor, torch::Tensor>> wanted;
    // Every rank begins its transfers in the order of this loop.
    for (int from = 0; from < world; ++from)
      for (int to = 0; to < world; ++to)
        for (const std::int64_t salt : {3, 4}) {
          if (from == to) continue;
          const torch::Tensor numbers = numbers_of(from, count, salt + to);
          if (rank == from) {
            pending.push_back(group.send(numbers, to));
            sent += 4 * count;
          }
          if (rank == to) {
            torch::Tensor into = torch::full({count}, -1.f);
            pending.push_back(group.receive(into, from));
            wanted.emplace_back(into, numbers);
          }
        }
    for (std::size_t i = pending.size(); i-- > 0;) pending[i].wait();
    for (const auto& [into, numbers] : wanted) expect(torch::equal(into, numbers), "a transfer");
  }
  torch::Tensor bytes = numbers_of(0, 300, 7).to(torch::kByte);
  if (world > 1 && rank == 0) group.send(bytes, world - 1).wait();
  if (world > 1 && rank == world - 1) {
    torch::Tensor into = torch::zeros({300}, torch::kByte);
    group.receive(into, 0).wait();
    expect(torch::equal(into, bytes), "a transfer of bytes");
  }
  if (world > 1 && rank == 0) sent += 300;
  const Traffic between = group.traffic() - before;
  expect(between[Collective::kSend].bytes == sent && between.bytes() == sent, "bytes of transfers");
  torch::Tensor a = torch::zeros({3});
  expect_refused("cannot send to itself", [&] { group.send(a, rank).wait(); });
  expect_refused("cannot receive from itself", [&] { group.receive(a, rank).wait(); });
  expect_refused("is none of the", [&] { group.send(a, world).wait(); });
  expect_refused("contiguous", [&] {
    if (world == 1) throw Error(Errc::kUsage, "contiguous");
    group.send(torch::zeros({3, 5}).t(), (rank + 1) % world).wait();
  });
  group.barrier();
}

/// fixed SHARDS ELEMENTS: prints the digest of a sum of shards whose order matters.
void print_fixed_sum(Group& group, const Words& words) {
  const int shards = std::stoi(words.at(1));
  const std::int64_t elements = std::stoll(words.at(2));
  FixedSum sum(elements, shards_of(group.rank(), group.world(), shards));
  for (int s = sum.own().first; s < sum.own().first + sum.own().count; ++s) {
    torch::Tensor shard = torch::empty({elements});
    float* values = shard.mutable_data_ptr<float>();
    const std::span<float> all(values, static_cast<std::size_t>(elements));
    RandomStream(7, "fixed sum", "", static_cast<std::uint64_t>(s)).fill_normal(all, 0, 1);
    // Rounding must matter, or every order would do.
    for (std::int64_t i = 0; i < elements; ++i)
      values[i] *= std::exp2f(static_cast<float>(i % 40 - s));
    sum.add({values, static_cast<std::size_t>(elements)});
  }
  torch::Tensor into = torch::empty({elements});
  group.all_reduce(sum, shards, into);
  say(to_hex(sha256({static_cast<const std::byte*>(into.const_data_ptr()), into.nbytes()})));
}

/// loop [EVENT RANK STEP]...: all_reduces for ever; ring: transfers to the next rank. At a step, a
/// rank does what EVENT says: throw, exit (with status 0), abort, busy (computes for ever), leave
/// (returns), idle (sleeps), end (all ranks finish).
void loop(Group& group, const Words& words) {
  std::map<std::int64_t, std::string> events;
  for (std::size_t i = 1; i + 2 < words.size(); i += 3)
    if (std::stoi(words[i + 1]) == group.rank()) events[std::stoll(words[i + 2])] = words[i];
  group.barrier();
  say("ready");
  torch::Tensor a = torch::ones({10'000}), b = torch::empty({10'000});
  const bool ring = words[0] == "ring";
  for (std::int64_t step = 0;; ++step) {
    const auto event = events.find(step);
    if (event != events.end()) {
      if (event->second == "throw") throw Error(Errc::kNonFinite, "the loss is not a number");
      if (event->second == "exit") std::exit(0);
      if (event->second == "abort") std::abort();
      if (event->second == "leave") return;
      if (event->second == "end") return group.finish();
      volatile std::uint64_t spin = 0;
      while (event->second == "busy") spin = spin + 1;
      while (event->second == "idle") ::pause();
    }
    if (ring) {
      const int world = group.world(), rank = group.rank();
      Pending sent = group.send(a, (rank + 1) % world);
      group.receive(b, (rank + world - 1) % world).wait();
      sent.wait();
      continue;
    }
    group.all_reduce(a).wait();
    a.fill_(1);
  }
}

/// What the loopback interface of this process' network namespace has carried.
std::int64_t loopback_bytes() {
  std::ifstream lines("/proc/net/dev");
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find("lo:"); at != std::string::npos)
      return std::stoll(line.substr(at + 3));
  throw Error(Errc::kFailure, "there is no loopback interface");
}

/// traffic BYTES KIND: prints what the counter says of one collective, and what the loopback
/// interface carried meanwhile.
void print_traffic(Group& group, const Words& words) {
  const std::int64_t count = std::stoll(words.at(1)) / 4;
  const std::string kind = words.at(2);
  torch::Tensor a = torch::ones({count});
  std::vector<std::int64_t> pieces(static_cast<std::size_t>(group.world()), count / group.world());
  pieces.back() += count - count / group.world() * group.world();
  torch::Tensor own = torch::empty({pieces[static_cast<std::size_t>(group.rank())]});
  group.barrier();
  const Traffic before = group.traffic();
  const std::int64_t wire = loopback_bytes();
  group.barrier();
  if (kind == "all_reduce") group.all_reduce(a).wait();
  if (kind == "reduce_scatter") group.reduce_scatter(a, pieces, own).wait();
  if (kind == "broadcast") group.broadcast(a, group.world() - 1).wait();
  if (kind == "all_gather") group.all_gather(a, pieces).wait();
  const std::int64_t counted = (group.traffic() - before).bytes();
  group.barrier();
  say(std::to_string(counted) + " " + std::to_string(loopback_bytes() - wire));
}

/// ensemble: six steps of four small networks on a batch of 32, of which each rank has its part;
/// prints all parameters.
void train_ensemble(Group& group) {
  const std::int64_t rows = 32 / group.world(), first = rows * group.rank();
  EnsembleMlp nets(4, {9, 7, 3}, 11);
  AdamW adamw(nets.parameters(), {.lr = 1e-2});
  torch::manual_seed(5);
  for (int step = 0; step < 6; ++step) {
    const torch::Tensor x = torch::randn({32, 9}), y = torch::randint(3, {32});
    const torch::Tensor outputs = nets.forward(x.narrow(0, first, rows));
    const torch::Tensor targets = y.narrow(0, first, rows).repeat({nets.members()});
    nets.zero_grad();
    (torch::nn::functional::cross_entropy(outputs.flatten(0, 1), targets) *
     static_cast<double>(nets.members()))
        .backward();
    average(group, nets.gradients());
    adamw.step(nets.gradients());
  }
  std::string text;
  for (const torch::Tensor& p : nets.parameters()) {
    const torch::Tensor numbers = p.detach().contiguous();
    for (std::int64_t i = 0; i < numbers.numel(); ++i) {
      char number[32];
      std::snprintf(number, sizeof number, "%.9g ", numbers.const_data_ptr<float>()[i]);
      text += number;
    }
  }
  say(text);
}

/// average: means of tensors of several types and layouts, and what is refused.
void check_average(Group& group) {
  const int rank = group.rank(), world = group.world();
  torch::Tensor a = torch::full({3, 5}, static_cast<float>(rank)).t();  // not contiguous
  torch::Tensor b = torch::full({70}, 2.0 * rank, torch::kDouble);
  torch::Tensor c = torch::full({2}, rank == world - 1 ? 8 : 0, torch::kBFloat16);
  torch::Tensor d = torch::full({3 << 20}, static_cast<float>(rank));  // more than one message
  average(group, {a, torch::Tensor(torch::empty({0})), b, c, d});
  const double mean = (world - 1) / 2.0;
  expect(a.eq(mean).all().item<bool>() && d.eq(mean).all().item<bool>(), "average of float32");
  expect(b.eq(2 * mean).all().item<bool>(), "average of float64");
  expect(c.eq(8.0 / world).all().item<bool>(), "average of bfloat16");
  for (const torch::Tensor& wrong : {torch::Tensor(), torch::zeros({2}, torch::kLong)}) try {
      average(group, {wrong});
      expect(false, "a tensor that cannot be averaged is refused");
    } catch (const Error& error) {
      expect(error.code() == Errc::kUsage, "by a usage error");
    }
}

/// agree NAME VALUE...
void agree(Group& group, const Words& words) {
  std::vector<Fact> facts;
  for (std::size_t i = 1; i + 1 < words.size(); i += 2) facts.push_back({words[i], words[i + 1]});
  group.agree(facts);
  say("agreed");
}

void scenario(Group& group, const Words& words) {
  const std::string& name = words.at(0);
  if (name == "collectives") return check_collectives(group);
  if (name == "transfers") return check_transfers(group);
  if (name == "fixed") return print_fixed_sum(group, words);
  if (name == "loop" || name == "ring") return loop(group, words);
  if (name == "traffic") return print_traffic(group, words);
  if (name == "ensemble") return train_ensemble(group);
  if (name == "average") return check_average(group);
  if (name == "agree") return agree(group, words);
  if (name == "meet") return say("met");
  throw Error(Errc::kUsage, "unknown scenario " + name);
}

/// serve: an agent's store, until killed. Prints its port.
int serve() {
  net::Fd listener = net::listen_on("127.0.0.1", 0);
  const int port = net::port_of(listener);
  const TcpKeyStore store("127.0.0.1", port, std::move(listener), std::chrono::seconds{10});
  say(std::to_string(port));
  for (;;) ::pause();
}

int run(const Words& arguments) {
  LaunchFlags flags;
  GroupOptions options;
  Words words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool option = words.empty() && word.starts_with("--");
    if (!option)
      words.push_back(word);
    else if (word == "--rank")
      flags.rank = arguments.at(++i);
    else if (word == "--world")
      flags.world = arguments.at(++i);
    else if (word == "--local-rank")
      flags.local_rank = arguments.at(++i);
    else if (word == "--master")
      flags.master = arguments.at(++i);
    else if (word == "--listen")
      options.listen = arguments.at(++i);
    else if (word == "--timeout")
      options.timeout =
          std::chrono::milliseconds(std::llround(1000 * std::stod(arguments.at(++i))));
    else if (word == "--start-timeout")
      options.start_timeout =
          std::chrono::milliseconds(std::llround(1000 * std::stod(arguments.at(++i))));
    else if (word == "--module")
      options.module = arguments.at(++i);
    else if (word == "--backend")
      options.backend = arguments.at(++i) == "nccl" ? RankBackend::kNccl : RankBackend::kGloo;
  }
  try {
    if (words.at(0) == "serve") return serve();
    const Launch launch = read_launch(flags);
    set_log_rank(launch.rank, launch.world);
    const auto group = Group::open(launch, options);
    if (words.at(0) == "loop" || words.at(0) == "ring") try {
        scenario(*group, words);
      } catch (const std::exception& error) {
        group->fail(error.what());
        throw;
      }
    else
      run_together(*group, [&] { scenario(*group, words); });
    return 0;
  } catch (const std::exception& error) {
    log_line(error.what());
    write_error_file(error.what());
    const auto* own = dynamic_cast<const Error*>(&error);
    end_rank(own && own->code() == Errc::kUsage ? 2 : 1);
  }
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) { return gbcompress::run({argv + 1, argv + argc}); }
