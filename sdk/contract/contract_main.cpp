/// gbcompress_contract [GoogleTest options] [--parameter=MODULE.NAME:SHAPE ...] PLUGIN.so ...
///
/// Loads the plugins as the host does, then tests every layer type and strategy they registered.
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "gnet_type_contract.h"

int main(int argc, char** argv) {
  constexpr std::string_view kParameter = "--parameter=";
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      if (argument.starts_with(kParameter))
        gbcompress::contract::offer_parameter(std::string(argument.substr(kParameter.size())));
      else if (!argument.starts_with("--"))
        gbcompress::contract::host().load(argument);
    }
    // GoogleTest generates the cases, and so the specifications, inside this call.
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
