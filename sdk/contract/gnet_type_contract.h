#pragma once
/// What a layer type promises (gbcompress/registry.h), as tests over whatever is registered. A new
/// plugin is tested unasked; contract_main.cpp loads it.

#include <ostream>
#include <string>
#include <vector>

#include "gbcompress/registry.h"

namespace gbcompress::contract {

/// A layer type, a parameter it takes, and the options of the request.
struct Case {
  std::string type_id;
  ParameterInfo parameter;
  GNetOptions options;
  std::string name;  ///< letters, digits and '_': names the test

  const GNetType& type() const;
  /// The type's specification. Every case has one.
  GNetSpec spec() const;
};
/// How GoogleTest prints a case.
void PrintTo(const Case& c, std::ostream* out);

/// The host whose registry is tested. The main program fills it before GoogleTest starts.
PluginHost& host();

/// Adds a parameter that the types are offered: "Row.weight:64x48", module type, local name,
/// shape. @throws Error(kUsage)
void offer_parameter(const std::string& text);

/// Every type with every offered parameter that it takes and several options.
std::vector<Case> cases();
/// Ids of registered types, sorted.
std::vector<std::string> type_ids();

}  // namespace gbcompress::contract
