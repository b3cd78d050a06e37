#include <gbcompress/plugin.h>

#include "spec.h"

namespace {

class Embedding final : public gbcompress::GNetType {
 public:
  std::string_view id() const noexcept override { return "embedding"; }
  std::vector<std::string> modules() const override { return gbcompress::embedding::modules(); }
  int supports(std::string_view ability) const noexcept override {
    return ability == "only-by-rule" ? 1 : 0;
  }

 private:
  std::optional<gbcompress::GNetSpec> spec_impl(
      const gbcompress::ParameterInfo& parameter,
      const gbcompress::GNetOptions& options) const override {
    return gbcompress::embedding::spec(parameter, options);
  }
};

}  // namespace

GBC_PLUGIN("embedding", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  registrar.register_gnet_type(std::make_unique<Embedding>());
})
