#include "run_watch.h"

#include <cmath>

namespace gbcompress::cli {
using nlohmann::ordered_json;

void RunWatch::begin(const std::string& part) {
  part_ = part + "/";
  phase_.clear();
  done_ = 0;
  runs_.clear();
}

void RunWatch::see(const Progress& progress) {
  display_.show(progress);
  if (progress.phase == "attempt") {
    ordered_json attempt;
    for (const auto& [name, value] : progress.measured) {
      attempt[name] = value;
      if (log_) log_->add(part_ + "attempts", name, progress.done, value);
    }
    attempts_.push_back(std::move(attempt));
    return;
  }
  if (progress.phase == "evaluate") return;
  // A phase that starts over is another run.
  if (progress.phase != phase_ || progress.done < done_) ++runs_[progress.phase];
  phase_ = progress.phase;
  done_ = progress.done;
  const std::string run = phase_ + " " + std::to_string(runs_[phase_]);
  const auto keep = [&](const std::string& name, double value) {
    if (!std::isfinite(value)) return;
    curves_[{phase_ == "fit" ? "fit " + name : name, run}].add(static_cast<double>(done_), value);
    if (log_) log_->add(part_ + run, name, done_, value);
  };
  keep("loss", progress.loss);
  for (const auto& [name, value] : progress.measured) keep(name, value);
}

ordered_json RunWatch::curves() const {
  ordered_json curves = ordered_json::array();
  for (const auto& [key, curve] : curves_)
    curves.push_back(
        {{"name", key.first}, {"run", key.second}, {"x", curve.x()}, {"y", curve.y()}});
  return curves;
}

void RunWatch::tell(Report& page) const {
  page.set("curves", curves());
  page.set("attempts", attempts_);
}

}  // namespace gbcompress::cli
