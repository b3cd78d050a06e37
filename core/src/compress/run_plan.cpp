#include "compress/run_plan.h"

#include "compress/methods/method.h"
#include "compress/notes.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// A file of one method, and its quality.
struct MethodFile {
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
      MethodFile file = this->made_by(method, plan_);
      if (file.suffices()) return taken(method, std::move(file), before);
      if (trains(next) && !run_.time_to_train())
        return taken(method, usable(method, std::move(file)), "; no time is left to train");
      if (!trains(next) && !run_.time_for({}))
        return taken(method, std::move(file), "; no time is left to calibrate");
      const std::string said =
          "the " + std::string(method_name(method)) + " file: " + this->said(file);
      before = "; " + said;
      if (trains(next)) return trained(next, said);
    }
    const Method last = plan_.methods.back();
    if (!plan_.compares_files) return only(last);
    MethodFile file = this->made_by(last, plan_);
    const std::string why = file.suffices() ? before : "; effort fast never trains";
    if (!file.suffices()) file = usable(last, std::move(file));
    return taken(last, std::move(file), why);
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

  PlanResult taken(Method method, MethodFile file, const std::string& why) const {
    return {method, run_.drop_text(file.drop) + why, std::move(file.made)};
  }

  MethodFile made_by(Method method, const CompressionPlan& plan) {
    run_.begin(method);
    MethodFile file{make_method(method)->run(plan, run_)};
    file.fits = run_.bytes_of(file.made.file) <= plan.max_bytes;
    file.drop = run_.measured(file.made.file);
    return file;
  }

  /// The calibrated file of the target size unless its model is collapsed: then the smallest whose
  /// model is not. Data-free files are what they are.
  MethodFile usable(Method method, MethodFile file) {
    if (method != Method::kCalibrated || (file.fits && run_.kept() >= kLeastKept)) return file;
    CompressionPlan alone = plan_;
    alone.methods = {method};
    return this->made_by(method, alone);
  }

  std::string said(const MethodFile& file) const {
    if (file.fits) return run_.drop_text(file.drop);
    return formatted("%zu bytes, above the target", file.made.file.size());
  }

  const CompressionPlan& plan_;
  TrainingRun& run_;
};

}  // namespace

PlanResult run_plan(const CompressionPlan& plan, TrainingRun& run) {
  return PlanRunner(plan, run).result();
}

}  // namespace gbcompress
