#include <gbcompress/plugin.h>

#include "spec.h"

GBC_PLUGIN("conv", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  registrar.register_gnet_type({.id = "conv", .modules = gbcompress::conv::modules()},
                               &gbcompress::conv::spec);
})
