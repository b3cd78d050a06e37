#pragma once
/// Runs of which everything is known: nothing is trained.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "compress/training_run.h"
#include "gbcompress/error.h"

namespace gbcompress {

/// A run whose state is the number of attempts behind it, and whose files follow a power of lambda.
class FakeRun final : public TrainingRun {
 public:
  // Of methods that make files of sizes:
  std::function<double(double bytes)> kept_at = [](double) { return 0.9; };
  std::function<double(double bytes)> drop_at = [](double) { return 0.0; };
  double data_free_drop = 0;  ///< of the data-free file beside the given model
  std::size_t data_free_bytes = 100;
  double standard_error = 0.1;
  bool trains_in_time = true;
  std::int64_t done_before = 0;
  std::vector<Method> begun;
  std::vector<std::int64_t> sizes;  ///< of all calls of make()

  void begin(Method method) override { begun.push_back(method); }
  void make(std::int64_t size) override { sizes.push_back(size); }
  Candidate data_free() override {
    return {.file = std::vector<std::byte>(data_free_bytes), .kept = 0.9};
  }
  double kept() override { return kept_at(static_cast<double>(sizes.back())); }
  double drop() override { return drop_at(static_cast<double>(sizes.back())); }
  QualityDrop measured(const std::vector<std::byte>& made_file) override {
    const bool from_weights = begun.back() == Method::kDataFree;
    const auto size = static_cast<double>(made_file.size());
    return {from_weights ? data_free_drop : drop_at(size), standard_error};
  }
  std::int64_t bytes_of(const std::vector<std::byte>& made_file) const override {
    return static_cast<std::int64_t>(made_file.size());
  }
  std::int64_t attempts_done() const override { return done_before; }
  void begin_attempt(std::int64_t index) override { attempt_index = index; }
  bool time_to_train() const override { return trains_in_time; }
  std::string drop_text(const QualityDrop& value) const override {
    return "drop " + std::to_string(value.drop);
  }
  double first_lambda() const override { return 1; }
  std::int64_t most_attempts() const override { return 6; }
  bool looks_for_leakage() const override { return false; }
  std::int64_t attempt_index = -1;

  // Of the search for lambda:
  std::function<double(double lambda)> bytes = [](double lambda) {
    return 1000 / std::sqrt(lambda);
  };
  std::function<double(double lambda)> drop_of = [](double lambda) { return lambda; };
  double collapses_at = HUGE_VAL;
  double leaks = 0;  ///< part of each drop that is leakage
  bool cuts_collapse = false;
  int time_left = 100;
  std::size_t stops_after = 100;  ///< attempts, as a request to stop does
  std::optional<Resumed> earlier;

  std::vector<std::string> lines;
  std::vector<LambdaPoint> made;
  std::vector<LambdaSearchState> saved;
  State saved_base;
  int restored_beginnings = 0, leakages = 0, cuts = 0;

  State beginning() override { return beginning_; }
  State state() const override { return std::make_shared<const double>(at_); }
  void restore(const State& state) override {
    restored_beginnings += state == beginning_;
    at_ = *std::static_pointer_cast<const double>(state);
  }
  std::optional<Resumed> resumed() override { return earlier; }
  void save(LambdaSearchState search, const std::vector<std::byte>& best_file,
            const State& base) override {
    saved.push_back(std::move(search));
    best_bytes = best_file.size();
    saved_base = base;
  }
  LambdaPoint attempt(double lambda, double from, bool baseline) override {
    EXPECT_GT(lambda, 0);
    EXPECT_EQ(from, at_) << "an attempt continues the run that its point names";
    if (made.size() == stops_after) throw Error(Errc::kInterrupted, "stopped");
    at_ = lambda;
    LambdaPoint point{.lambda = lambda, .bytes = std::llround(bytes(lambda)), .from = from};
    point.drop = baseline ? 0 : drop_of(lambda);
    point.collapsed = lambda >= collapses_at;
    made.push_back(point);
    return point;
  }
  Candidate candidate() override {
    if (sizes.empty()) return file(bytes(at_));
    return {.file = std::vector<std::byte>(static_cast<std::size_t>(sizes.back())), .kept = kept()};
  }
  Candidate cut_to(std::int64_t most) override {
    ++cuts;
    Candidate cut = file(std::min(bytes(at_), static_cast<double>(most)));
    cut.loss += 1;
    if (cuts_collapse) cut.kept = 0.1;
    return cut;
  }
  double noise() const override { return 0; }
  bool may_leak(double) override { return leaks > 0 && leakages == 0; }
  double leakage() override {
    ++leakages;
    const double before = leaks;
    drop_of = [old = drop_of, before](double lambda) { return old(lambda) - before; };
    return before;
  }
  bool time_for(std::chrono::steady_clock::duration) const override {
    return static_cast<int>(made.size()) < time_left;
  }
  void tell(const std::string& line) const override {
    const_cast<FakeRun*>(this)->lines.push_back(line);
  }
  void show(const LambdaPoint&, std::int64_t done, bool) const override {
    EXPECT_EQ(done, static_cast<std::int64_t>(made.size()) + offset);
  }
  std::string drop_text(double value) const override { return "drop " + std::to_string(value); }

  std::int64_t offset = 0;
  std::size_t best_bytes = 0;

 private:
  Candidate file(double size) const {
    return {.file = std::vector<std::byte>(static_cast<std::size_t>(std::llround(size))),
            .kept = at_ >= collapses_at ? 0.1 : 0.9,
            .loss = at_};
  }
  double at_ = 0;  ///< lambda that the run stands at; 0: the beginning
  State beginning_ = std::make_shared<const double>(0.0);
};

}  // namespace gbcompress
