#pragma once
/// What a bottleneck holds: its parts, and what concerns several of them.

#include <string>
#include <vector>

#include "bottleneck/generated_part.h"
#include "bottleneck/integer_part.h"
#include "bottleneck/placement.h"
#include "bottleneck/rank_part.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/ranks.h"

namespace gbcompress {

inline std::span<float> span_of(const at::Tensor& contiguous) {
  return {contiguous.data_ptr<float>(), static_cast<std::size_t>(contiguous.numel())};
}

/// The g-nets [first, first + count) of a bank.
struct OwnRows {
  std::int64_t first = 0, count = 0;

  /// @param bank  [g-nets of the bank, ...]
  at::Tensor of(const at::Tensor& bank) const { return bank.narrow(0, first, count); }
  template <typename Tile>
  std::span<const Tile> of(const std::vector<Tile>& bank) const {
    return std::span(bank).subspan(static_cast<std::size_t>(first),
                                   static_cast<std::size_t>(count));
  }
};

/// What the weights of the module are.
enum class Phase {
  kTraining,  ///< what the g-nets and integers of this step make
  kExact,     ///< what the file expands to, until the next step
  kFinished   ///< likewise, and the values to store are chosen: neither gradients nor steps
};

struct GenomicBottleneck::Impl {
  using Layer = GeneratedLayer;

  Impl(std::vector<NamedParameter> tensors, const Registry& types, const BottleneckOptions& options,
       Group* group);

  bool exact() const { return phase != Phase::kTraining; }
  bool finished() const { return phase == Phase::kFinished; }
  /// Gradients of the phase before are of no use, but those of a model that only became exact.
  void enter(Phase next) {
    phase = next;
    if (next != Phase::kExact) has_gradients = false;
  }

  void place();
  PlacementCase measure(std::size_t bank, double bytes_per_second);
  /// What this rank computes, and steps, of a bank.
  OwnRows own_rows(std::size_t bank) const;
  /// Whether this rank computes the layer's first g-net; with ranks.with_layers, all of them.
  bool makes(std::size_t layer) const;
  void make_gnet_optimizer();
  void make_latents();
  void make_gnet_latents();
  /// Gradients of the g-nets into those of their integers; none where a layer is idle.
  void connect_gnet_latents();
  void make_optimizers();
  /// @throws Error(kUsage) where the module's tensors are others, or of another kind, than before
  void check_tensors() const;

  void draw_noise();
  /// @param own_only  only what this rank makes itself; nothing travels
  void predict(bool own_only = false);
  void backward();
  /// Of g-nets, from gradients that are the same on every rank.
  void backward_own_tiles();
  /// @param may_be  whether a layer without a gradient is idle; else that is a gradient of 0
  void find_idle(bool may_be);
  /// Of options.schedule, for the next step.
  double schedule_now() const;
  void step(double lr_factor);
  void step_gnets(double lr_factor);
  std::vector<TileTarget> targets(std::size_t bank);
  /// @param alive     owns gradients that had to be converted
  /// @param own_only  of the layers alone that this rank makes
  std::vector<TileSource> sources(std::size_t bank, float factor, std::vector<at::Tensor>& alive,
                                  bool own_only = false);
  /// The gradient that the g-nets of a route follow, in the layout of its target.
  at::Tensor gradient_of(Route& route, const at::Tensor& weights);
  /// @param idle_stay  parameters without a gradient, and the optimizer's state of them, stay as
  /// they
  ///                   are; else their gradient is 0 but for the rate
  void add_quantized_rate(bool idle_stay = false);
  void add_gnet_rate();

  /// Of trainable tensors that no g-net makes, and floating-point buffers.
  std::vector<at::Tensor> carried() const;
  std::vector<at::Tensor> carried_gradients();
  std::vector<at::Tensor> float_buffers() const;
  std::int64_t shard_numbers() const;
  void add_shard(FixedSum& sum);
  void reduce_shards(const FixedSum& sum, int shards);

  /// Before the first step: the entropy model has no estimates yet.
  void begin_rate();
  void set_rate(std::int64_t step);
  /// Chooses all integers: the least squared error in units of the step plus `lambda` times the
  /// bits.
  void choose_integers(double lambda);
  /// Chooses them for a file of at most so many bytes: the costliest bits go first.
  void fit_size(std::int64_t max_bytes);

  void round_gnets();
  /// Parameters without g-nets, where options.code_plain says so.
  void round_plain();
  /// The integers of a layer's coded g-nets.
  CodedTheta coded_theta(std::size_t layer) const;
  void write_to(ArtifactWriter& writer) const;
  /// The whole file as the bottleneck stands.
  ArtifactWriter file(const std::string& arch) const;
  std::int64_t bytes() const;
  /// Where a file has each of `tensors`. @throws Error(kShapeMismatch) naming the first difference
  std::vector<std::size_t> places_in(const ArtifactReader& artifact,
                                     const std::string& label) const;
  void take_theta(std::size_t layer, const ArtifactReader& artifact, std::size_t stored);
  std::vector<std::string> row(std::size_t tensor) const;  ///< of describe()

  /// What the plain and the quantized optimizer step, in their order.
  std::vector<std::string> stepped_names() const;
  /// Every rank gets the plain parameters that one rank steps [collective]; and their moments too.
  void gather_plain();
  AdamW::State whole_plain_state() const;
  /// The g-nets' moments over the whole buffer, whoever owns them [collective]; zeros; and back.
  AdamW::State whole_state() const;
  AdamW::State blank_state() const;
  void restore_own(const AdamW::State& whole);

  BottleneckOptions options;
  std::vector<NamedParameter> tensors;
  GeneratedPart generated;
  IntegerPart integers;
  RankPart ranks;
  std::unique_ptr<AdamW> plain_optimizer;  ///< of `plain`
  std::vector<std::size_t> plain;          ///< trainable tensors that are stored as they are
  bool training = true;                    ///< stochastic g-nets draw
  Phase phase = Phase::kTraining;
  bool has_gradients = false;           ///< of this step
  torch::nn::Module* module = nullptr;  ///< null where only tensors were given
  std::vector<const void*> identities;  ///< of its parameters and buffers, when it was taken up
  std::vector<at::ScalarType> types;    ///< of `tensors`, likewise
  at::Device device = at::kCPU;         ///< of `tensors`; everything else is on the host
};

}  // namespace gbcompress
