#pragma once
/// Names and values of a file, and the model that is nothing more than them.

#include "gbcompress/model.h"

namespace gbcompress {

/// The tensors that open_tensors() finds, in the file's own element type; module types are guessed.
/// Sorted by name.
/// @param notes  where given, receives the bundle's, and one of tensors with NaN or infinity
/// @throws Error(kUnsupported) for an element type LibTorch lacks; as
///         open_tensors()
std::vector<NamedParameter> read_tensors(const std::filesystem::path& file,
                                         const OpenOptions& options = {},
                                         std::vector<std::string>* notes = nullptr);

/// The layer a tensor belongs to, from its name and rank, "" where nothing speaks for one:
/// `in_proj_weight` MultiheadAttention; GPT-2's c_attn, c_fc, c_proj Conv1D where the sides lie the
/// transposed way; names such as wte, tok, pos, embed Embedding; other matrices named `weight`
/// Linear, with one to three more dimensions Conv1d, Conv2d, Conv3d. Recurrent layers show
/// themselves in several tensors together: guess_recurrent_types().
std::string guess_module_type(const std::string& module_path, const std::string& local_name,
                              const std::vector<std::int64_t>& shape);

/// Fills in name, module path, module type and shape.
void name_parameter(ParameterInfo& info, const std::string& name,
                    const std::vector<std::int64_t>& shape);

/// Values without a forward pass. Trainable tensors are float32, whatever the file had;
/// info.dtype says what it had.
class StateDictModel : public Model {
 public:
  explicit StateDictModel(std::vector<NamedParameter> tensors);

  std::string arch() const override { return ""; }
  bool has_forward() const override { return false; }
  at::Tensor forward(const at::Tensor& inputs) override;
  void train(bool on) override {}
};

}  // namespace gbcompress
