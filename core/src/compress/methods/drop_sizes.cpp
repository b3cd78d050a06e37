#include "compress/methods/drop_sizes.h"

#include "compress/notes.h"
#include "search/drop_search.h"

namespace gbcompress {

Candidate largest_ratio_within_drop(const CompressionPlan& plan, TrainingRun& run, bool cheap) {
  const double allowed = *plan.max_drop;
  const auto make = [&](double ratio) {
    run.make(static_cast<std::int64_t>(static_cast<double>(plan.input_bytes) / ratio));
  };
  const std::int64_t first = cheap ? 0 : run.attempts_done();
  BracketSearch search = drop_search(cheap);
  double drop = 0;
  std::int64_t attempts = 0;
  for (; const auto ratio = search.next(); ++attempts) {
    const bool known = attempts < first;  // it missed, or it would be the last
    if (!known) {
      run.begin_attempt(attempts);
      make(*ratio);
      drop = run.drop();
    }
    search.tried(*ratio, !known && drop <= allowed);
  }
  const bool met = search.holds().has_value();
  if (met && search.state().last != search.holds()) make(*search.holds());
  Candidate candidate = run.candidate();
  candidate.attempts = attempts;
  candidate.target_met = met;
  if (!met)
    candidate.note = formatted(
        "the largest quality drop allowed is %g; at the largest size tried it is %.3g on the "
        "held-out split; use more epochs",
        allowed, drop);
  return candidate;
}

}  // namespace gbcompress
