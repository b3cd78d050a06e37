#pragma once
/// Integers of a model that is not trained, chosen by what samples say of it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rate/packed_values.h"
#include "statistics/refit.h"
#include "statistics/second_order.h"

namespace gbcompress {

/// How integers are chosen: the held-out split decides between these.
struct Rule {
  bool columns = true;       ///< error feedback over inputs
  bool rows = true;          ///< and over outputs
  bool refit = false;        ///< weights fitted to what rounded layers before them give
  double price = 0;          ///< of a bit, in squared steps of mean cost; 0: nearest integers
  std::string text() const;  ///< "two-sided error feedback, weights refitted"
};

class CalibratedIntegers {
 public:
  /// @param model    computes with the values to be stored; it must outlive this
  /// @param tensors  what is stored as integers, indices into model.tensors(), without duplicates
  /// @param grids    one for each of them, not dependent
  /// @param samples  of the training split, for Rule::refit
  /// @param temper   steps of tensors are proportional to cost^(-temper / 2), 0 to 1
  /// @param values   of all of the model's tensors, whose memory is shared; empty: they are copied
  CalibratedIntegers(Model& model, std::vector<std::size_t> tensors, std::vector<IntegerGrid> grids,
                     SecondOrderStatistics statistics, const Dataset& samples, double temper,
                     const std::vector<at::Tensor>& values = {});

  /// Integers of all tensors for steps of 2^x times what their costs say; the model computes with
  /// them afterwards. No tensor loses more than half of what it would lose as zeros.
  void choose(double x, const Rule& rule);
  /// The same anew for some of them, from what the model holds now, each number by itself.
  void choose_again(double x, const Rule& rule, const std::vector<std::size_t>& tensors);
  /// Of the last choose(), one for each of the tensors.
  const std::vector<PackedValues>& coded() const { return coded_; }
  /// The model computes with the values to be stored.
  void restore();

  bool can_refit() const { return !statistics_.groups.empty(); }
  std::int64_t numbers() const { return numbers_; }
  /// Multiply-adds of a choose() with feedback over rows and columns, about.
  double feedback_work() const;

 private:
  int step_of(std::size_t entry, double x, const Rule& rule) const;
  void round(std::size_t entry, const at::Tensor& values, SecondOrder moments, double x,
             const Rule& rule, codec::IntegerChooser* chooser);
  void put(std::size_t entry);
  void walk(double x, const Rule& rule, codec::IntegerChooser* chooser, std::vector<bool> rounded);

  Model& model_;
  std::vector<std::size_t> tensors_;
  std::vector<IntegerGrid> grids_;
  SecondOrderStatistics statistics_;
  Dataset samples_;
  double temper_, largest_ = 0;
  std::vector<at::Tensor> values_;  ///< float32, dense
  std::vector<PackedValues> coded_;
  std::vector<std::optional<std::size_t>> entry_of_;  ///< of each of the model's tensors
  std::optional<Refit> refit_;
  std::int64_t numbers_ = 0;
};

}  // namespace gbcompress
