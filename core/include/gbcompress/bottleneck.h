#pragma once
/// The five verbs, in every mode: a model whose weights come out of g-nets, or are integers whose
/// bits are part of the loss.
///
///   PluginHost plugins;  plugins.load_installed();
///   GenomicBottleneck bottleneck(*model, plugins.registry(),
///                                {.mode = WeightMode::kQuantized,
///                                 .rate = {.predictions = samples, .steps = epochs * batches}});
///   for (auto& [x, y] : batches) {
///     bottleneck.zero_grad();
///     bottleneck.predict_weights();
///     loss(model->forward(x), y).backward();
///     bottleneck.backward();
///     bottleneck.step();
///   }
///   bottleneck.finish();
///   bottleneck.save("model.gbz");

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/model.h"
#include "gbcompress/optimizer.h"
#include "gbcompress/options.h"
#include "gbcompress/ranks.h"
#include "gbcompress/registry.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// Dense size over stored size, > 1 is smaller.
struct Ratio {
  double parameters = 1;  ///< all trainable parameters / (g-net + plain parameters)
  double bytes = 1;       ///< all tensors as safetensors would hold them / bytes()
};

/// Whose gradients backward() finds in the .grad of the parameters.
enum class Gradients : std::uint8_t {
  kOwnPart,  ///< of this rank's part of the batch: they are averaged over the ranks
  /// The same on every rank, as when weights are fitted without data: nothing travels, the bits do
  /// not depend on the number of ranks, and the rate is not in the loss.
  kAlike,
  /// The same on every rank, of the whole batch: nothing travels, the bits do not depend on the
  /// number of ranks, and the rate is in the loss. A parameter without a gradient makes no step,
  /// unless g-nets make it: then it has a gradient of 0.
  kSame,
};

struct SaveOptions {
  std::optional<std::string> arch;  ///< instead of BottleneckOptions::arch
  bool overwrite = false;
};

/// A parameter that g-nets make.
struct GeneratedLayer {
  std::string name;
  std::string type_id;
  GNetSpec spec;
  at::Tensor theta;     ///< [tiles, parameters] view of the bank's buffer
  at::Tensor grad;      ///< the same view of the gradient
  at::Tensor weights;   ///< the live parameter
  at::Tensor original;  ///< its values when the bottleneck was made
  /// Ranks that compute and step its g-nets, ascending: {0} in one process, several where its tiles
  /// are shared out, all of them where it is replicated.
  std::vector<int> ranks = {0};
  bool replicated = false;  ///< every rank of several has all of its g-nets
};

class GenomicBottleneck {
 public:
  /// Initializes the g-nets (weights N(0, 0.1), biases 0) and chooses those of every parameter that
  /// a registered layer type claims. The module's weights are untouched until predict_weights().
  /// The module must outlive the bottleneck, and its parameters must stay the same tensors.
  /// @param group  the ranks that train together, each on its own part of a batch: gradients are
  ///               averaged over them, as data-parallel training does. It must outlive the
  ///               bottleneck; null: one process. Then the constructor, predict_weights(),
  ///               backward(), step() and finish() are [collective: every rank, same order]
  /// @throws Error(kUsage) for options out of range, Error(kPluginMissing)
  GenomicBottleneck(torch::nn::Module& module, const Registry& types,
                    const BottleneckOptions& options = {}, Group* group = nullptr);
  GenomicBottleneck(std::vector<NamedParameter> tensors, const Registry& types,
                    const BottleneckOptions& options = {}, Group* group = nullptr);
  ~GenomicBottleneck();
  GenomicBottleneck(GenomicBottleneck&&) noexcept;

  /// Gradients of g-nets and of all parameters := 0.
  void zero_grad();
  /// Writes the weights into the module's own storage: generated ones, and integers times their
  /// steps. After load() and finish() they have the bits that expand() gives.
  /// @throws Error(kUsage) where the module's parameters are no longer those it was made with
  void predict_weights();
  /// dL/dtheta += J^T dL/dW, reading the .grad of every generated parameter; gradients of integers
  /// and step sizes, with those of the rate. With several ranks gradients are averaged over them,
  /// those of plain parameters and floating-point buffers (batch-norm statistics) too; call it once
  /// a step.
  /// @throws Error(kNonFinite) naming the parameter whose gradient is not finite; Error(kUsage)
  ///         after finish(), and with a rate weight but without rate.predictions
  void backward(Gradients gradients = Gradients::kOwnPart);
  /// One AdamW step of everything that is trained. The entropy model's estimates and
  /// the rate weight follow the schedule of BottleneckOptions::rate.
  /// @param lr_factor  multiplies all learning rates
  /// @throws Error(kUsage) without a backward() before
  void step(double lr_factor = 1);
  /// The end of training: every rank gets all g-nets, g-nets are rounded as they will be stored,
  /// integers are chosen for rate.max_bytes, and the module gets the weights that the file will
  /// hold. Then save(); to train on, restart(). A size that cannot be reached is no error: see
  /// bytes().
  /// @throws Error(kUsage) when it was called before
  void finish();

  /// Writes a `.gbz` of at most rate.max_bytes if that is reachable. Optimizer state is not
  /// part of it.
  /// @return bytes written
  /// @throws Error(kUsage) before finish(), Error(kExists) unless options.overwrite, Error(kIo)
  std::int64_t save(const std::filesystem::path& path, const SaveOptions& options = {}) const;
  /// Of the file that save() writes, or would write if finish() chose nothing more.
  std::int64_t bytes() const;
  /// Restores g-nets, integers and plain tensors of a file with the same names, shapes and
  /// specifications, then predicts the weights: those that expand() gives, bit for bit. Optimizer
  /// state and the schedule of the rate weight start anew.
  /// @throws Error(kShapeMismatch) naming the first difference; nothing has then been changed
  void load(const std::filesystem::path& path);

  /// A new phase of training, with another loss or rate weight: resets moments and step counts of
  /// all optimizers and the schedule of the rate weight. After finish(): continues from its result.
  /// @param rate  from here on instead of BottleneckOptions::rate
  /// @throws Error(kUsage) for a rate out of range
  void restart(const std::optional<RateOptions>& rate = {});
  /// Everything that the next step depends on: g-nets, integers with their steps, plain parameters,
  /// buffers, moments, step counts and the rate weight. Named by parameter, so that it does not
  /// depend on how g-nets are banked. Copies. [collective]
  std::vector<StateEntry> training_state() const;
  /// Training continues with the same bits as where training_state() was taken.
  /// @throws Error(kShapeMismatch) naming the first entry that is missing, unknown or of another
  ///         shape or type; nothing has then been changed
  void restore_training_state(const std::vector<StateEntry>& state);
  /// For strategies whose ranks compute different layers: what makes a parameter moves to where its
  /// layer is. From here on the g-nets of a named parameter, or the parameter itself where it is
  /// stored as it is, are computed and stepped by its rank alone, and backward(Gradients::kSame)
  /// reads its gradient there only; while the strategy trains, the parameter is written there only.
  /// predict_weights(), finish() and training_state() bring it to every rank. Moments and
  /// everything else that the next step depends on stay as they are. [collective]
  /// @param ranks  by parameter's name; g-nets of others go to rank 0
  /// @return the parameters that one rank now makes. Empty with one process and where g-nets were
  ///         set to be replicated; without those that every rank needs: integers and
  ///         parameters of coded g-nets
  /// @throws Error(kUsage) for a rank that is none
  std::vector<std::string> place_with_layers(const std::map<std::string, int>& ranks);
  /// Whether stochastic g-nets draw their weights, as torch.nn.Module.train(); at first they do.
  /// After load() and finish() they have their means, as in expand().
  void train(bool on = true);

  Ratio ratio() const;
  /// One line a tensor: name, shape, what it is stored as, tiles, widths, numbers in the file,
  /// ratio, ranks that compute it. With several ranks one more line a bank: why it is computed
  /// there.
  std::string describe() const;
  /// Parameters with g-nets, in model order.
  const std::vector<GeneratedLayer>& layers() const;
  const std::vector<NamedParameter>& tensors() const;
  /// Parameters that plain_optimizer steps by SGD, in model order; empty with AdamW.
  std::vector<at::Tensor> sgd_parameters() const;

 private:
  friend struct BottleneckFile;
  friend struct BottleneckIntegers;
  friend struct BottleneckRanks;
  friend struct BottleneckRate;
  friend struct BottleneckShards;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::int64_t gnet_parameters(const GenomicBottleneck& bottleneck);  ///< all g-nets together
/// Trainable parameters that the file holds one by one, exact or as integers: all but those that
/// g-nets make alone.
std::int64_t plain_parameters(const GenomicBottleneck& bottleneck);

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
