#include <gbcompress/plugin.h>

#include "spec.h"

GBC_PLUGIN("attention", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  registrar.register_gnet_type({.id = "attention", .modules = gbcompress::attention::modules()},
                               &gbcompress::attention::spec);
})
