#include "nets.h"

#include <gbcompress/plugin.h>

GBC_PLUGIN("nets", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  using namespace gbcompress::nets;
  registrar.register_model("simple-vgg", simple_vgg);
  registrar.register_model("lenet-dtp", lenet_dtp);
  registrar.register_model("vgg11", vgg11);
  registrar.register_model("lstm-classifier", lstm_classifier);
  registrar.register_model("transformer-classifier", transformer_classifier);
})
