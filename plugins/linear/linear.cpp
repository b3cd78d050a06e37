#include <gbcompress/plugin.h>

#include "spec.h"

GBC_PLUGIN("linear", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  registrar.register_gnet_type({.id = "linear", .modules = gbcompress::linear::modules()},
                               &gbcompress::linear::spec);
})
