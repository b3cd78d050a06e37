#include "model/forward_pass.h"

#include "gbcompress/error.h"

namespace gbcompress {

void refuse_forward(const std::string& consequence, const std::string& instead) {
  throw Error(Errc::kUsage, "the model has weights and no program that can be run here" +
                                (consequence.empty() ? "" : ", " + consequence) +
                                "; name its architecture with `arch`" + instead);
}

void require_forward(const Model& model, const std::string& consequence,
                     const std::string& instead) {
  if (!model.has_forward()) refuse_forward(consequence, instead);
}

}  // namespace gbcompress
