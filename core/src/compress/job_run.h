#pragma once
/// The training runs of a job, as the search for lambda asks for them.

#include <optional>

#include "compress/attempt.h"
#include "compress/training_run.h"

namespace gbcompress {

class JobRun final : public TrainingRun {
 public:
  /// Plans the bottleneck, and resumes where the job's checkpoint stands.
  explicit JobRun(Job& job);

  State beginning() const override { return beginning_; }
  State state() const override;
  void restore(const State& state) override;
  std::optional<Resumed> resumed() override;
  void save(LambdaSearchState search, const std::vector<std::byte>& best_file,
            const State& base) override;
  LambdaPoint attempt(double lambda, double from, bool baseline) override;
  Candidate candidate() override;
  Candidate cut_to(std::int64_t bytes) override;
  double noise() const override { return job_.judge->noise(); }
  bool may_remember(double allowed) override;
  double leakage() override;
  bool time_for(std::chrono::steady_clock::duration last) const override;
  void tell(const std::string& line) const override;
  void show(const LambdaPoint& point, std::int64_t done, bool baseline) const override;
  std::string drop_text(double drop) const override;

  /// At the end: what the runs trained.
  GenomicBottleneck take() { return std::move(*bottleneck_); }
  double bytes_per_step() const { return attempts_.bytes_per_step; }

 private:
  double of_first_rank(double value) const { return of_rank_0(job_.options.group, value); }
  double kept();
  void begin_at(const RateOptions& rate);
  void train_without_leakage();

  Job& job_;
  Attempts attempts_;
  std::optional<GenomicBottleneck> bottleneck_;
  std::shared_ptr<const Attempts::State> beginning_;
  bool resumed_ = false;  ///< the next attempt was begun before
};

}  // namespace gbcompress
