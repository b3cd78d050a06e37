#pragma once
/// The runs of a call on its model, as methods ask for them.

#include <optional>

#include "compress/attempt.h"
#include "compress/quality/held_out.h"
#include "compress/training_run.h"

namespace gbcompress {

class ModelRun final : public TrainingRun {
 public:
  /// @param call  prepared
  explicit ModelRun(CompressRun& call);

  void begin(Method method) override;
  void make(std::int64_t bytes) override;
  Candidate data_free() override;
  double kept() override;
  double drop() override;
  QualityDrop measured(const std::vector<std::byte>& file) override;
  std::int64_t bytes_of(const std::vector<std::byte>& file) const override;
  std::int64_t attempts_done() const override;
  void begin_attempt(std::int64_t index) override { attempts_.at.attempt = index; }
  bool time_to_train() const override;
  std::string drop_text(const QualityDrop& drop) const override { return held_out_->text(drop); }

  State beginning() override;
  State state() const override;
  void restore(const State& state) override;
  std::optional<Resumed> resumed() override;
  void save(LambdaSearchState search, const std::vector<std::byte>& best_file,
            const State& base) override;
  LambdaPoint attempt(double lambda, double from, bool baseline) override;
  Candidate candidate() override;
  Candidate cut_to(std::int64_t bytes) override;
  double first_lambda() const override { return call_.options.train.rate.lambda; }
  std::int64_t most_attempts() const override { return call_.attempts; }
  double noise() const override { return call_.drop_estimate->noise(); }
  bool looks_for_leakage() const override;
  bool may_leak(double allowed) override;
  double leakage() override;
  bool time_for(std::chrono::steady_clock::duration last) const override;
  void tell(const std::string& line) const override;
  void show(const LambdaPoint& point, std::int64_t done, bool baseline) const override;
  std::string drop_text(double drop) const override;

  /// What the last attempt made; empty after data-free files.
  std::optional<GenomicBottleneck>& bottleneck() { return bottleneck_; }
  /// The file, where the method has written it already.
  const std::optional<ArtifactReader>& written() const { return written_; }
  double bytes_per_step() const { return attempts_.bytes_per_step; }  ///< sent by this rank

 private:
  bool leads() const;
  double of_first_rank(double value) const { return of_rank_0(call_.options.group, value); }
  bool from_weights() const;
  Candidate write_weights();
  bool within_training_time() const;
  void begin_at(const RateOptions& rate);
  void train_without_leakage();

  CompressRun& call_;
  Attempts attempts_;
  std::optional<HeldOut> held_out_;  ///< where files of methods are compared
  const std::int64_t epochs_;        ///< of training, which other methods set aside
  std::optional<ModelSnapshot> first_values_;
  std::optional<GenomicBottleneck> bottleneck_;
  std::optional<ArtifactReader> written_;
  std::optional<Candidate> calibrated_;  ///< the attempt's file, where nothing is trained
  std::shared_ptr<const Attempts::State> beginning_;
  bool began_ = false;    ///< a method: the model may not have its first values
  bool made_ = false;     ///< an attempt of this method
  bool resumed_ = false;  ///< the next attempt was begun before
};

/// Whether the plan's only method writes the weights as they are given, one tensor at a time.
bool writes_weights(const CompressRun& call);

}  // namespace gbcompress
