#pragma once
/// A pipeline over ranks: who computes which component, and what is passed on after each step.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "../common/balance.h"
#include "component.h"

namespace gbcompress::al {

class Exchange {
 public:
  using Components = std::vector<std::unique_ptr<Component>>;

  /// @param names  of the components and of the readout; rank 0 prints who computes which
  /// @param costs  of each, seconds, the same on every rank
  /// @param owner  rank of each; empty: by costs
  Exchange(Group& group, const std::vector<std::string>& names, const std::vector<double>& costs,
           std::vector<int> owner);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  int owner(std::size_t piece) const { return owner_[piece]; }
  bool owns(std::size_t piece) const { return owner_[piece] == group_.rank(); }
  /// The gradient and the values of this parameter stay on the rank that computes them.
  void keep(const at::Tensor& parameter, int rank);
  bool keeps(const at::Tensor& parameter) const;
  bool keeps_elsewhere(const at::Tensor& parameter) const;

  /// Computes this rank's pieces, and passes on what each made of what waited for it: codes,
  /// losses, gradients of the model and batch-norm statistics to every rank, in one flat buffer a
  /// rank; signals to the rank of the next component alone, where they have time until the next
  /// step. [collective]
  /// @param compute  of a piece of this rank
  void pass_on(const std::vector<Item>& waiting, std::vector<Item>& done,
               const Components& components, const Stage& readout, ReadOut& read_out,
               const std::function<void(std::size_t)>& compute) const;
  /// Returns when all signals of the last step are where they are needed.
  void arrive() const;
  /// Every rank gets the bridges and autoencoders of all components, also those that are the
  /// model's exits. [collective]
  void share(const Components& components) const;
  /// Every rank gets all signals. [collective]
  /// @param items  one a component: what it made
  void share_signals(std::vector<Item>& items, const Components& components) const;

 private:
  Group& group_;
  std::vector<int> owner_;
  std::map<const void*, int> kept_;       ///< on which rank
  mutable std::vector<Pending> signals_;  ///< under way, one a piece
};

/// A waiting item as tensors of fixed shapes, for checkpoints.
/// @param positions  of the mask; 0: there is none
constexpr std::size_t packed_tensors(std::int64_t positions) { return positions > 0 ? 7 : 6; }
std::vector<at::Tensor> pack(const Item& item, const at::Tensor& example, std::int64_t width,
                             std::int64_t classes, std::int64_t rows, std::int64_t positions);
Item unpack(const std::vector<at::Tensor>& packed, at::Device device);

}  // namespace gbcompress::al
