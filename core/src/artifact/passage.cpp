// Tensors through the links of a chain. Each goes through all of them alone, so that its bytes stay
// in caches.
#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "artifact/base_range.h"
#include "artifact/chain.h"
#include "artifact/header/header.h"
#include "base/parallel.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;

struct Step {
  std::size_t link = 0, tensor = 0;
};

/// How a tensor comes about: the base's, unless it is null, and what the links make of it.
struct Way {
  OwnTensor* start = nullptr;
  std::vector<Step> steps;
};

class Passage {
 public:
  Passage(std::vector<OwnModel> bases, const std::vector<const ArtifactReader*>& links)
      : bases_(std::move(bases)), links_(links) {
    for (const ArtifactReader* link : links_) {
      auto& index = indices_.emplace_back();
      for (std::size_t i = 0; i < link->tensors().size(); ++i)
        index.emplace(link->tensors()[i].name, i);
    }
  }

  OwnModel run() {
    const auto& tensors = links_.back()->tensors();
    std::vector<Way> ways;
    std::vector<std::size_t> way_of;
    // Tied tensors go one way.
    std::map<std::tuple<const OwnTensor*, std::size_t, std::size_t>, std::size_t> known;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Way way = way_to(i);
      const bool same = way.steps.empty();
      const auto [at, added] =
          known.emplace(std::tuple(same ? way.start : nullptr, same ? 0 : way.steps.back().link,
                                   same ? 0 : way.steps.back().tensor),
                        ways.size());
      way_of.push_back(at->second);
      if (added) ways.push_back(std::move(way));
    }
    std::vector<OwnTensor> made = begin(ways);
    parallel_tasks(usable_processors(), static_cast<std::int64_t>(ways.size()), [&](auto i) {
      go(ways[static_cast<std::size_t>(i)], made[static_cast<std::size_t>(i)]);
    });
    OwnModel model = rest_of_bases();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      OwnTensor own = made[way_of[i]];
      own.entry.name = tensors[i].name;
      model.tensors.emplace(tensors[i].name, std::move(own));
    }
    for (const ArtifactReader* link : links_) model.files.push_back(link->path());
    return model;
  }

 private:
  /// What tensors of the bases lie in.
  OwnModel rest_of_bases() {
    OwnModel model;
    for (OwnModel& base : bases_) {
      model.owners.insert(model.owners.end(), base.owners.begin(), base.owners.end());
      model.files.insert(model.files.end(), base.files.begin(), base.files.end());
      model.file_bytes += base.file_bytes;
    }
    return model;
  }

  [[noreturn]] void no_base(std::size_t link, const ArtifactTensor& tensor) const {
    throw Error(Errc::kCorrupt, printable(links_[link]->path().string()) +
                                    ": the base has no tensor " + printable(tensor.name) +
                                    " of the type and shape that the file says");
  }

  /// From the last link back.
  Way way_to(std::size_t tensor) {
    Way way;
    for (std::size_t link = links_.size() - 1;; --link) {
      const ArtifactTensor* one = &links_[link]->tensors()[tensor];
      if (one->kind == TensorKind::kTied) {
        tensor = indices_[link].find(one->tied_to)->second;
        one = &links_[link]->tensors()[tensor];
      }
      if (one->kind != TensorKind::kBase) way.steps.push_back({link, tensor});
      if (!has_source(*one)) break;
      const ArtifactTensor form = base_form(*one);
      if (link == 0) {
        auto& had = bases_.at(one->base).tensors;
        const auto before = had.find(form.name);
        if (before == had.end() || before->second.entry.dtype != form.dtype ||
            before->second.entry.shape != form.shape)
          no_base(link, *one);
        way.start = &before->second;
        break;
      }
      const auto before = indices_[link - 1].find(form.name);
      if (before == indices_[link - 1].end()) no_base(link, *one);
      tensor = before->second;
      const ArtifactTensor& had = links_[link - 1]->tensors()[tensor];
      if (had.dtype != form.dtype || had.shape != form.shape) no_base(link, *one);
    }
    std::ranges::reverse(way.steps);
    return way;
  }

  /// What each way begins with. Bytes of the start that one way alone needs are that way's.
  std::vector<OwnTensor> begin(const std::vector<Way>& ways) const {
    // Pieces may be any of the bases' elements.
    const bool pieces = std::ranges::any_of(links_[0]->tensors(), [](const auto& tensor) {
      return tensor.kind == TensorKind::kPieces;
    });
    std::map<const OwnTensor*, std::size_t> users;
    for (const Way& way : ways) ++users[way.start];
    std::vector<OwnTensor> made(ways.size());
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (!ways[i].start) continue;
      made[i] = *ways[i].start;
      if (users[ways[i].start] == 1 && !pieces) ways[i].start->own = nullptr;
    }
    return made;
  }

  void go(const Way& way, OwnTensor& made) {
    for (const Step& step : way.steps) {
      const ArtifactReader& link = *links_[step.link];
      const ArtifactTensor& tensor = link.tensors()[step.tensor];
      try {
        if (tensor.kind != TensorKind::kChange) {
          made = decoded(link, step.tensor, made.entry);
          continue;
        }
        if (!made.own || made.own.use_count() > 1)
          made = whole(tensor, {made.entry.bytes.begin(), made.entry.bytes.end()});
        apply_change(tensor.dtype, tensor.shape, link.change(step.tensor), *made.own);
      } catch (const Error& error) {
        throw Error(error.code(), printable(link.path().string()) + ": " + error.what());
      }
    }
  }

  static OwnTensor whole(const ArtifactTensor& tensor, Bytes bytes) {
    auto own = std::make_shared<Bytes>(std::move(bytes));
    return {{tensor.name, tensor.dtype, tensor.shape, *own}, own};
  }

  /// Readers decode one tensor at a time.
  OwnTensor decoded(const ArtifactReader& link, std::size_t i, const TensorEntry& before) {
    const std::lock_guard lock(decoding_);
    return whole(link.tensors()[i],
                 decode_tensor(link, i, {.builder = {}, .base = [&](const BaseRange& range) {
                                           return range.shape ? bytes_of(range, &before)
                                                              : range_in_bases(range);
                                         }}));
  }

  /// Of a tensor of pieces, which the first link alone has.
  std::span<const std::byte> range_in_bases(const BaseRange& range) const {
    const auto& tensors = bases_.at(range.base).tensors;
    const auto found = tensors.find(range.name);
    return bytes_of(range, found == tensors.end() ? nullptr : &found->second.entry);
  }

  std::vector<OwnModel> bases_;  ///< of the first link
  const std::vector<const ArtifactReader*>& links_;
  std::vector<std::map<std::string_view, std::size_t>> indices_;  ///< by name, of each link
  std::mutex decoding_;
};

}  // namespace

OwnModel passed_through(std::vector<OwnModel> bases,
                        const std::vector<const ArtifactReader*>& links) {
  return Passage(std::move(bases), links).run();
}

}  // namespace gbcompress
