#pragma once
/// A run that trains at one lambda after another, as RateSearch sees it. No LibTorch, so that a
/// test can stand in for it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/candidate.h"
#include "search/search_state.h"

namespace gbcompress {

class LambdaRun {
 public:
  /// Weights, step sizes and moments at one time.
  using State = std::shared_ptr<const void>;
  /// What earlier attempts of an interrupted run left.
  struct Resumed {
    LambdaSearchState search;
    std::vector<std::byte> best_file;
    State base;  ///< null: the beginning
  };

  virtual ~LambdaRun() = default;

  /// The state that a run begins with which is not resumed.
  virtual State beginning() = 0;
  virtual State state() const = 0;
  virtual void restore(const State& state) = 0;
  /// Once, before the first attempt; nothing for a new run.
  virtual std::optional<Resumed> resumed() = 0;
  /// After each attempt.
  /// @param search  what the run itself knows of it (the held-out split) is filled in
  /// @param base    what the next attempt may begin with, beside where the run stands; null: the
  ///                beginning
  virtual void save(LambdaSearchState search, const std::vector<std::byte>& best_file,
                    const State& base) = 0;

  /// Trains on from where the run stands.
  /// @param from      lambda of the attempt that it continues; 0: the beginning
  /// @param baseline  quality drops are measured from this one
  virtual LambdaPoint attempt(double lambda, double from, bool baseline) = 0;
  /// The file of the model as the run stands.
  virtual Candidate candidate() = 0;
  /// The same with integers chosen anew for a file of at most so many bytes.
  virtual Candidate cut_to(std::int64_t bytes) = 0;

  /// Standard error of a quality drop.
  virtual double noise() const = 0;
  /// Whether the last attempt's drop is above `allowed` only because the given model is overfit to
  /// the held-out split.
  virtual bool may_leak(double allowed) = 0;
  /// Measures that, by training without these samples; the run then stands where it stood.
  /// @return part of every drop that is not counted
  virtual double leakage() = 0;

  /// Whether there is time for another attempt as long as the last one.
  virtual bool time_for(std::chrono::steady_clock::duration last) const = 0;
  virtual void tell(const std::string& line) const = 0;
  /// @param done  attempts so far
  virtual void show(const LambdaPoint& point, std::int64_t done, bool baseline) const = 0;
  /// "quality drop 0.3 points"
  virtual std::string drop_text(double drop) const = 0;
};

}  // namespace gbcompress
