#include "nets.h"

#include <gbcompress/plugin.h>

#include "residual.h"

GBC_PLUGIN("nets", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  using namespace gbcompress::nets;
  registrar.register_model("simple-vgg", simple_vgg);
  registrar.register_model("lenet-dtp", lenet_dtp);
  registrar.register_model("vgg11", vgg11);
  registrar.register_model("vgg-al", vgg_al);
  registrar.register_model("resnet18", resnet18);
  registrar.register_model("resnet34", resnet34);
  registrar.register_model("lstm-classifier", lstm_classifier);
  registrar.register_model("bilstm-classifier", bilstm_classifier);
  registrar.register_model("transformer-classifier", transformer_classifier);
  registrar.register_model("gpt", gpt);
  registrar.register_model("sequential", sequential);
  gbcompress::register_inverse("ResidualBlock", invert_residual_block);
  gbcompress::register_inverse("ResidualBlock#published", invert_residual_block_as_published);
})
