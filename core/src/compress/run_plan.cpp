#include "compress/run_plan.h"

#include "compress/methods/method.h"
#include "compress/notes.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// A file of one method, and its quality.
struct Judged {
  Candidate made;
  bool fits = false;  ///< has the target size
  QualityDrop drop;

  bool suffices() const { return fits && !drop.measurable(); }
};

class PlanRunner {
 public:
  PlanRunner(const CompressionPlan& plan, TrainingRun& run) : plan_(plan), run_(run) {}

  PlanResult result() {
    if (plan_.methods.empty()) throw Error(Errc::kUsage, "the plan has no method");
    std::string before;
    for (std::size_t i = 0; i + 1 < plan_.methods.size(); ++i) {
      const Method method = plan_.methods[i], next = plan_.methods[i + 1];
      Judged judged = this->judged(method, plan_);
      if (judged.suffices()) return taken(method, std::move(judged), before);
      if (trains(next) && !run_.time_to_train())
        return taken(method, usable(method, std::move(judged)), "; no time is left to train");
      if (!trains(next) && !run_.time_for({}))
        return taken(method, std::move(judged), "; no time is left to calibrate");
      const std::string said =
          "the " + std::string(method_name(method)) + " file: " + this->said(judged);
      before = "; " + said;
      if (trains(next)) return trained(next, said);
    }
    const Method last = plan_.methods.back();
    if (!plan_.judged) return only(last);
    Judged judged = this->judged(last, plan_);
    const std::string why = judged.suffices() ? before : "; effort fast never trains";
    if (!judged.suffices()) judged = usable(last, std::move(judged));
    return taken(last, std::move(judged), why);
  }

 private:
  PlanResult only(Method method) {
    run_.begin(method);
    return {method, "", make_method(method)->run(plan_, run_)};
  }

  PlanResult trained(Method method, const std::string& reason) {
    run_.begin(method);
    run_.tell("training: " + reason);
    return {method, reason, make_method(method)->run(plan_, run_)};
  }

  PlanResult taken(Method method, Judged judged, const std::string& why) const {
    return {method, run_.drop_text(judged.drop) + why, std::move(judged.made)};
  }

  Judged judged(Method method, const CompressionPlan& plan) {
    run_.begin(method);
    Judged judged{make_method(method)->run(plan, run_)};
    judged.fits = run_.bytes_of(judged.made.file) <= plan.max_bytes;
    judged.drop = run_.measured(judged.made.file);
    return judged;
  }

  /// The calibrated file of the target size unless its model is collapsed: then the smallest whose
  /// model is not. Data-free files are what they are.
  Judged usable(Method method, Judged judged) {
    if (method != Method::kCalibrated || (judged.fits && run_.kept() >= kLeastKept)) return judged;
    CompressionPlan alone = plan_;
    alone.methods = {method};
    return this->judged(method, alone);
  }

  std::string said(const Judged& judged) const {
    if (judged.fits) return run_.drop_text(judged.drop);
    return formatted("%zu bytes, above the target", judged.made.file.size());
  }

  const CompressionPlan& plan_;
  TrainingRun& run_;
};

}  // namespace

PlanResult run_plan(const CompressionPlan& plan, TrainingRun& run) {
  return PlanRunner(plan, run).result();
}

}  // namespace gbcompress
