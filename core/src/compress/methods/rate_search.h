#pragma once
/// Training at one lambda after another, for a target size or a quality drop.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compress/lambda_run.h"
#include "search/lambda_search.h"

namespace gbcompress {

struct RateSearchRequest {
  std::int64_t bytes = 0;  ///< of the file at most; 0: the smallest within the drop
  /// Largest quality drop allowed, if no size is wanted; 0: none that can be measured.
  double drop = 0;
  /// Drops are compared with the limit on a held-out split, from a baseline run.
  bool baseline_run = false;
  /// May look for overfitting of the given model to the held-out split.
  bool looks_for_leakage = false;
  double first_lambda = 0;
  std::int64_t attempts = 0;  ///< at most, the baseline run among them
};

struct RateSearchResult {
  Candidate best;
  std::vector<LambdaPoint> points;  ///< of all attempts, the baseline run first
  bool target_met = true;           ///< as far as quality is concerned
  std::string note;                 ///< why a target is not reached, if it is not
  std::string taken;                ///< which attempt the file is of, and why
};

/// Each attempt continues the one with the nearest lower lambda, whose file is larger: what has
/// become zero at too high a lambda does not come back.
class RateSearch {
 public:
  RateSearch(LambdaRun& run, const RateSearchRequest& request) : run_(run), request_(request) {}
  /// To be called once. [collective]
  RateSearchResult result();

 private:
  bool sized() const { return request_.bytes > 0; }
  LambdaGoal goal() const;
  LambdaSearch search_so_far(bool& more) const;
  std::vector<LambdaPoint> known() const;
  double from_of(const LambdaSearch& search) const;
  void resume();
  void baseline();
  LambdaPoint attempt(double lambda, double from, bool baseline);
  bool may_be_leakage(const LambdaSearch& search, const LambdaPoint& point);
  void take_leakage_off();
  Candidate candidate();
  void continue_from_here();
  void keep(const LambdaSearch& search, bool more, std::optional<Candidate> made);
  void consider(Candidate candidate);
  void cut_last();
  void save();
  std::string line(const LambdaPoint& point, bool baseline) const;
  std::string taken() const;
  RateSearchResult outcome(const LambdaSearch& search);

  LambdaRun& run_;
  const RateSearchRequest request_;
  std::vector<LambdaPoint> points_;  ///< of all attempts, the baseline run first
  Candidate best_;
  LambdaRun::State base_;    ///< what the next attempt continues
  double base_lambda_ = 0;   ///< 0: that is the beginning
};

/// Whether `a` serves a wanted size better than `b`: of files that fit the one with the lower loss,
/// else the smallest whose model is not collapsed, else the one that keeps most.
bool serves_better(const Candidate& a, const Candidate& b, std::int64_t wanted);

}  // namespace gbcompress
