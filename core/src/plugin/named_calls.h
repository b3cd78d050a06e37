#pragma once
/// Factories and strategies of a plugin whose failures name it.

#include <string>

#include "gbcompress/registrar.h"

namespace gbcompress {

/// What `factory` builds; a crash names `origin` and the architecture. Exceptions pass as they are.
ModelFactory named_model(std::string origin, std::string name, ModelFactory factory);

/// A factory of strategies whose functions do what those of `factory`'s do. Errors pass as they
/// are; other exceptions and crashes name `origin` and the strategy.
StrategyFactory named_strategy(std::string origin, std::string name, StrategyFactory factory);

}  // namespace gbcompress
