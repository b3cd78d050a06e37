#pragma once
/// A pipeline over ranks: who computes which component, and what is passed on after each step.

#include <memory>
#include <string>

#include "../common/balance.h"
#include "component.h"

namespace gbcompress::al {

class Exchange {
 public:
  /// @param names  of the components and of the readout; rank 0 prints who computes which
  /// @param costs  of each, seconds, the same on every rank
  Exchange(Group& group, const std::vector<std::string>& names, const std::vector<double>& costs);
  bool owns(std::size_t piece) const { return owner_[piece] == group_.rank(); }
  /// Every rank gets what each piece made of what waited for it: signals, codes, gradients of the
  /// model, batch-norm statistics, losses. One flat buffer a piece. [collective]
  void pass_on(const std::vector<Item>& waiting, std::vector<Item>& done,
               const std::vector<std::unique_ptr<Component>>& components, const Stage& readout,
               double& read_out_loss) const;
  /// Every rank gets the bridges and autoencoders of all components. [collective]
  void share(const std::vector<std::unique_ptr<Component>>& components) const;

 private:
  Group& group_;
  std::vector<int> owner_;
};

/// A waiting item as tensors of fixed shapes, for checkpoints.
constexpr std::size_t kPackedTensors = 5;
std::vector<at::Tensor> pack(const Item& item, const at::Tensor& example, std::int64_t width,
                             std::int64_t classes, std::int64_t rows);
Item unpack(const std::vector<at::Tensor>& packed);

}  // namespace gbcompress::al
