#include <gbcompress/plugin.h>

#include "spec.h"

GBC_PLUGIN("recurrent", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  registrar.register_gnet_type({.id = "recurrent", .modules = gbcompress::recurrent::modules()},
                               &gbcompress::recurrent::spec);
})
