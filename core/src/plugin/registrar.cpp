#include "gbcompress/registry.h"

#include <ATen/core/Tensor.h>

#include <utility>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// A layer type made of two callables.
class FunctionType final : public GNetType {
 public:
  FunctionType(GNetTypeInfo info, SpecFunction init, BuildFunction build)
      : info_(std::move(info)), init_(std::move(init)), build_(std::move(build)) {}

  std::string_view id() const noexcept override { return info_.id; }
  std::uint32_t revision() const noexcept override { return info_.revision; }
  std::vector<std::string> modules() const override { return info_.modules; }
  int supports(std::string_view ability) const noexcept override {
    return ability == "custom-build" && build_ ? 1 : 0;
  }

 private:
  std::optional<GNetSpec> spec_impl(const ParameterInfo& parameter,
                                    const GNetOptions& options) const override {
    return init_(parameter, options);
  }
  at::Tensor build_impl(const GNetSpec& spec, const at::Tensor& tiles) const override {
    return build_ ? build_(spec, tiles) : place_tiles(spec, tiles);
  }

  GNetTypeInfo info_;
  SpecFunction init_;
  BuildFunction build_;
};

}  // namespace

Registrar::~Registrar() = default;

void Registrar::register_gnet_type(GNetTypeInfo info, SpecFunction init, BuildFunction build) {
  if (!init) throw Error(Errc::kPluginRefused, "layer type " + info.id + " has no init function");
  register_gnet_type(
      std::make_unique<FunctionType>(std::move(info), std::move(init), std::move(build)));
}

void Registrar::register_gnet_type(const char* module, SpecFunction init, BuildFunction build) {
  std::string id = module;
  for (char& c : id)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  register_gnet_type(GNetTypeInfo{.id = std::move(id), .modules = {module}}, std::move(init),
                     std::move(build));
}

}  // namespace gbcompress
