#include "model/builtin.h"

#include "gbcompress/model.h"

namespace gbcompress {

void register_builtin_models(Registrar& registrar) {
  registrar.register_model("mlp", build_mlp);
  registrar.register_model("lenet-300-100", build_lenet_300_100);
  registrar.register_model("lenet5", build_lenet5);
  for (int blocks : {3, 5, 9})
    registrar.register_model(
        "resnet" + std::to_string(6 * blocks + 2),
        [blocks](const ModelRequest& request) { return build_cifar_resnet(request, blocks); });
  register_inverse("BasicBlock", invert_basic_block);
  register_inverse("BasicBlock#published", invert_basic_block_as_published);
}

}  // namespace gbcompress
