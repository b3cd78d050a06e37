/// Embedding tables: weight [entries, width], rows are entries. A table is looked up by numbers
/// that have no order, so that neighboring rows need not be alike, and a g-net finds less to learn
/// than in other layers: it gets one only where a rule asks.
#include <gbcompress/plugin.h>

namespace {

class Embedding final : public gbcompress::GNetType {
 public:
  std::string_view id() const noexcept override { return "embedding"; }
  std::vector<std::string> modules() const override { return {"Embedding", "EmbeddingBag"}; }
  int supports(std::string_view ability) const noexcept override {
    return ability == "only-by-rule" ? 1 : 0;
  }

 private:
  std::optional<gbcompress::GNetPlan> plan_impl(
      const gbcompress::ParameterInfo& parameter,
      const gbcompress::GNetOptions& options) const override {
    if (parameter.local_name != "weight" || parameter.shape.size() != 2) return std::nullopt;
    return make_plan(parameter, {.row_dim = 0, .col_dim = 1}, options);
  }
};

}  // namespace

GBC_PLUGIN("embedding", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  registrar.register_gnet_type(std::make_unique<Embedding>());
})
