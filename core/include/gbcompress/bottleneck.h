#pragma once
/// The five verbs: a model whose weights come out of g-nets.
///
///   PluginHost plugins;  plugins.load_installed();
///   GenomicBottleneck bottleneck(*model, plugins.registry());
///   for (auto& [x, y] : batches) {
///     bottleneck.zero_grad();
///     bottleneck.predict_weights();
///     loss(model->forward(x), y).backward();
///     bottleneck.backward();
///     bottleneck.step();
///   }
///   bottleneck.save("model.gbz");

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/dist.h"
#include "gbcompress/optimizer.h"
#include "gbcompress/options.h"
#include "gbcompress/parameters.h"
#include "gbcompress/plugin_host.h"
#include "gbcompress/tile_kernel.h"

namespace gbcompress {

/// Dense size over stored size, > 1 is smaller.
struct Ratio {
  double parameters = 1;  ///< all trainable parameters / (g-net + plain parameters)
  double bytes = 1;       ///< all tensors as safetensors would hold them / the .gbz of save()
};

class GenomicBottleneck {
 public:
  /// Initialises the g-nets (weights N(0, 0.1), biases 0) and plans every parameter that a
  /// registered layer type claims. The module's weights are untouched until predict_weights().
  /// The module must outlive the bottleneck.
  /// @param group  the ranks that train together, each on its own part of a batch: gradients are
  ///               averaged over them, as data-parallel training does. It must outlive the
  ///               bottleneck; null: one process. Then the constructor, predict_weights(),
  ///               backward() and gather() are [collective: every rank, same order]
  GenomicBottleneck(torch::nn::Module& module, const Registry& types,
                    const BottleneckOptions& options = {}, Group* group = nullptr);
  GenomicBottleneck(std::vector<NamedParameter> tensors, const Registry& types,
                    const BottleneckOptions& options = {}, Group* group = nullptr);
  ~GenomicBottleneck();
  GenomicBottleneck(GenomicBottleneck&&) noexcept;
  GenomicBottleneck& operator=(GenomicBottleneck&&) noexcept;

  /// Gradients of g-nets and of all parameters := 0.
  void zero_grad();
  /// Writes the generated weights into the module's own storage.
  void predict_weights();
  /// dL/dtheta += J^T dL/dW, reading the .grad of every generated parameter. With several ranks
  /// gradients are averaged over them, those of plain parameters and floating-point buffers
  /// (batch-norm statistics) too; call it once a step.
  /// @throws Error(kNonFinite) naming the parameter whose gradient is not finite
  void backward();
  /// The same where every rank has the same gradients anyway, as when weights are fitted without
  /// data: nothing travels, and the bits do not depend on the number of ranks.
  void backward_alike();
  /// Whether g-nets are integers, so that Coding::kCoded and no other is theirs.
  bool coded_gnets() const noexcept;
  /// One AdamW step of all g-nets and of all plain parameters.
  /// @param lr_factor  multiplies both learning rates
  void step(double lr_factor = 1);

  /// Every rank gets all g-nets. To be called before anything is saved or rounded; nothing to do
  /// with one rank.
  void gather();

  /// The same gradient as backward(), where no g-net is a prior, with bits that do not depend on
  /// the number of ranks: a batch is cut into a fixed number of shards, each shard's loss is
  /// weighted by its part of the batch, and its gradient becomes one leaf of a fixed tree sum.
  /// Floating-point buffers are averaged over shards likewise. Every g-net must be replicated.
  ///   FixedSum sum(bottleneck.shard_numbers(), shards_of(rank, world, shards));
  ///   for (each own shard) { zero_grad(); loss.backward(); bottleneck.add_shard(sum); }
  ///   bottleneck.reduce_shards(sum, shards);
  std::int64_t shard_numbers() const;
  void add_shard(FixedSum& sum);
  /// @param shards  of the whole batch [collective]
  void reduce_shards(const FixedSum& sum, int shards);

  /// What a bit of residual parameters and of coded g-nets adds to the loss, from the next
  /// backward() on; at first 0.
  void set_bit_price(double loss_per_bit);
  double bit_price() const noexcept;
  /// Those bits at the last backward(), as the loss counts them.
  double bits() const noexcept;
  /// From here on a number's bits are taken under what the coder expects of it as the
  /// integers are now: from its contexts, or, much faster, from the mean magnitude of its tensor.
  void expect(bool contexts);
  /// Multiplies the steps of residual parameters and of coded g-nets; above 0.
  void scale_steps(double factor);
  /// Chooses the integers of both, for the last time: the least squared error in
  /// units of the step plus `lambda` times the bits. predict_weights() then gives what is stored.
  void choose_integers(double lambda);
  /// Integers of residual parameters without any training, for steps of `step` times the
  /// deviation^`evenness` of a tensor: 0 for the least squared error at a size, 1 for the same
  /// relative error in every tensor.
  void quantise(double step, double evenness, Quantiser quantiser);
  /// From here on quantise() multiplies its step by these instead, one for each of tensors(), above
  /// 0 for residual parameters (others are not looked at); empty: forgets them.
  /// @throws Error(kUsage) for another number of them, or one that is not above 0
  void set_step_factors(const std::vector<double>& factors);
  /// Residual parameters among `tensors`, indices into tensors(), begin anew with what the live
  /// tensors hold now; integers that were chosen for them are forgotten.
  void retake(const std::vector<std::size_t>& tensors);
  /// Squared error of the integers over the squares of what they stand for, all residual parameters
  /// together.
  double relative_error() const;
  /// About what it would be after quantise() with the nearest integers, from a sample: many times
  /// faster.
  double expected_error(double step, double evenness) const;

  /// Null where there is one process.
  Group* group() const noexcept;
  /// One line a bank: where it is computed and why. Empty with one rank.
  const std::vector<std::string>& placement_notes() const;

  /// Writes a `.gbz`; fp32 keeps the g-nets exactly. Optimiser state is not part of it.
  std::int64_t save(const std::filesystem::path& path, Coding coding = Coding::kF32,
                    bool overwrite = false) const;
  /// Restores g-nets and plain tensors of a file with the same names, shapes and plans, then
  /// predicts the weights. Optimiser state starts anew.
  /// @throws Error(kShapeMismatch) naming the first difference
  void load(const std::filesystem::path& path);

  /// Everything that the next step depends on: g-nets, plain parameters, buffers, both optimisers'
  /// moments and step counts. Named by parameter, so that it does not depend on how g-nets are
  /// banked. Copies.
  struct StateEntry {
    std::string name;  ///< "fc1.weight#theta", "fc1.bias#first_moment", "optimizer#steps"
    at::Tensor value;
  };
  std::vector<StateEntry> training_state() const;
  /// Training goes on with the same bits as where training_state() was taken.
  /// @throws Error(kShapeMismatch) naming the first entry that is missing, unknown or of another
  ///         shape or type; nothing has then been changed
  void restore_training_state(const std::vector<StateEntry>& state);

  /// Whether stochastic g-nets draw their weights, as torch.nn.Module.train(); at first they do.
  /// Expansion always takes the mean.
  void train(bool on = true);

  Ratio ratio(Coding coding = Coding::kF32) const;
  /// One line a tensor: name, shape, type id, tiles, widths, parameters, ratio, owner rank.
  std::string describe() const;

  struct Layer {
    std::string name;
    std::string type_id;  ///< "" for plain parameters and buffers
    GNetPlan plan;        ///< of generated parameters
    at::Tensor theta;     ///< [tiles, parameters] view of the bank's buffer
    at::Tensor grad;      ///< the same view of the gradient
    at::Tensor weights;   ///< the live parameter
    at::Tensor original;  ///< its values when the bottleneck was made
  };
  /// Generated parameters, in model order.
  const std::vector<Layer>& layers() const;
  const std::vector<NamedParameter>& tensors() const;
  std::int64_t gnet_parameters() const;   ///< all g-nets together
  std::int64_t plain_parameters() const;  ///< trainable, not generated
  /// Forgets moments and step counts of both optimisers, for a new phase with another loss.
  void reset_optimizers();
  /// Rounds the g-nets as `coding` will store them, so that what is measured is what is written.
  void round_to(Coding coding);
  /// Adds everything to a writer, in model order.
  void write_to(ArtifactWriter& writer, Coding coding) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Decodes every tensor of an artifact: generated ones by the exact kernel and the type's build,
/// rounded to the tensor's own dtype.
/// @throws Error(kPluginMissing) naming the layer type
std::vector<NamedParameter> expand(const ArtifactReader& artifact, const Registry& types);

/// The same tensors, one after another straight into a safetensors file: beside the artifact itself
/// no more than one tensor is in memory. The file appears whole or not at all.
/// @return bytes written
/// @throws as expand() and write_safetensors(); Error(kInterrupted) between two tensors
std::int64_t expand_to_file(const ArtifactReader& artifact, const Registry& types,
                            const std::filesystem::path& output, bool overwrite = false);

}  // namespace gbcompress
