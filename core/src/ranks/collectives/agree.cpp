// Collectives of text, and what is made of them.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

#include "gbcompress/error.h"
#include "ranks/collectives/group_state.h"

namespace gbcompress {
namespace {

constexpr std::size_t kMaxText = 16u << 20, kMaxFact = 1u << 20;
constexpr std::size_t kShown = 120;  // bytes of a value in a message

std::string encode(std::span<const Fact> facts) {
  std::string result;
  for (const Fact& fact : facts)
    for (const std::string* text : {&fact.name, &fact.value}) {
      append_number(result, text->size(), 4);
      result += *text;
    }
  return result;
}

std::vector<Fact> decode(std::string_view text) {
  std::vector<Fact> result;
  const auto next = [&] {
    std::uint64_t length = 0;
    if (!take_number(text, 4, length) || length > text.size())
      throw Error(Errc::kFailure, "the ranks' facts arrived malformed");
    const std::string part(text.substr(0, length));
    text.remove_prefix(length);
    return part;
  };
  while (!text.empty()) {
    std::string name = next();
    result.push_back({std::move(name), next()});
  }
  return result;
}

/// The line in which two texts differ first; the whole text where it is one line.
std::string shown(const std::string& value, const std::string& other) {
  const auto differs = std::ranges::mismatch(value, other).in1;
  const auto at = static_cast<std::size_t>(differs - value.begin());
  const std::size_t before = at == 0 ? std::string::npos : value.rfind('\n', at - 1);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  const std::string line = value.substr(first, value.find('\n', first) - first);
  return "\"" + printable(line.substr(0, kShown)) + (line.size() > kShown ? "..." : "") + "\"";
}

[[noreturn]] void differ(Group& group, const std::string& name, int rank, const std::string& mine,
                         const std::string& reference, const std::string& remedy = "") {
  try {
    // The first to throw would end the exchange of those that have not read everything yet.
    group.barrier();
  } catch (const Error&) {  // what is known here says more
  }
  throw Error(Errc::kUsage, "the ranks do not agree on " + printable(name) + ": rank 0 has " +
                                shown(reference, mine) + ", rank " + std::to_string(rank) +
                                " has " + shown(mine, reference) + "; " +
                                (remedy.empty() ? "start all ranks with the same program, "
                                                  "plugins, settings and data"
                                                : remedy));
}

}  // namespace

std::vector<std::string> Group::all_gather(std::string_view mine) {
  if (mine.size() > kMaxText)
    throw Error(Errc::kUsage, "a text of " + std::to_string(mine.size()) +
                                  " bytes is too long to be gathered from all ranks");
  if (world() == 1) {
    state_->begin(Collective::kAllGather, 0);
    return {std::string(mine)};
  }
  const auto bytes = at::TensorOptions().dtype(at::kByte);
  const auto counts = at::TensorOptions().dtype(at::kLong);
  at::Tensor size = at::empty(std::vector<std::int64_t>{1}, counts);
  *size.mutable_data_ptr<std::int64_t>() = static_cast<std::int64_t>(mine.size());
  at::Tensor sizes = at::empty(std::vector<std::int64_t>{world()}, counts);
  state_->begin(Collective::kAllGather,
                static_cast<std::int64_t>(sizeof(std::int64_t)) * (world() - 1));
  auto impl = std::make_unique<Pending::Impl>();
  impl->state = state_;
  impl->kind = Collective::kAllGather;
  impl->start([&] { return state_->transport->all_gather(size, sizes); });
  Pending(std::move(impl)).wait();

  const std::int64_t* pieces = sizes.const_data_ptr<std::int64_t>();
  std::int64_t total = 0, first = 0;
  for (int r = 0; r < world(); ++r) {
    if (pieces[r] < 0 || pieces[r] > static_cast<std::int64_t>(kMaxText))
      throw Error(Errc::kFailure, "rank " + std::to_string(r) + " announced a text of " +
                                      std::to_string(pieces[r]) + " bytes");
    if (r < rank()) first += pieces[r];
    total += pieces[r];
  }
  const at::Tensor flat = at::zeros(std::vector<std::int64_t>{total}, bytes);
  auto* data = reinterpret_cast<char*>(flat.mutable_data_ptr<std::uint8_t>());
  if (!mine.empty()) std::memcpy(data + first, mine.data(), mine.size());
  all_gather(flat, {pieces, static_cast<std::size_t>(world())}).wait();
  std::vector<std::string> result;
  for (int r = 0; r < world(); ++r) {
    result.emplace_back(data, static_cast<std::size_t>(pieces[r]));
    data += pieces[r];
  }
  return result;
}

bool Group::all(bool mine) {
  const auto votes = all_gather(mine ? "1" : "0");
  return std::ranges::all_of(votes, [](const std::string& vote) { return vote == "1"; });
}

bool Group::any(bool mine) { return !all(!mine); }

void Group::agree(std::span<const Fact> facts) {
  for (const Fact& fact : facts)
    if (fact.name.size() + fact.value.size() > kMaxFact)
      throw Error(Errc::kUsage, "the fact " + printable(fact.name.substr(0, kShown)) +
                                    " is too long to be compared; compare a digest of it");
  const auto all_facts = all_gather(encode(facts));
  const std::vector<Fact> reference = decode(all_facts.front());
  for (int r = 1; r < world(); ++r) {
    if (all_facts[static_cast<std::size_t>(r)] == all_facts.front()) continue;
    const std::vector<Fact> theirs = decode(all_facts[static_cast<std::size_t>(r)]);
    const std::size_t common = std::min(theirs.size(), reference.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (theirs[i].name != reference[i].name)
        differ(*this, "what there is to agree on", r, theirs[i].name, reference[i].name);
      if (theirs[i].value != reference[i].value)
        differ(*this, reference[i].name, r, theirs[i].value, reference[i].value,
               i < facts.size() ? facts[i].remedy : "");
    }
    differ(*this, "what there is to agree on", r,
           theirs.size() > common ? theirs[common].name : "nothing more",
           reference.size() > common ? reference[common].name : "nothing more");
  }
}

void Group::agree(std::string name, std::string value) {
  const Fact fact{std::move(name), std::move(value)};
  agree(std::span(&fact, 1));
}

}  // namespace gbcompress
