#pragma once
/// Whether a model predicts tokens.

#include "base/internal.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {

/// Whether a file's metadata, or a Transformers `config.json` beside it, say that the model's
/// outputs are scores of a vocabulary, so that one of its tables gives them: a GGUF file with a
/// tokenizer and no pooling, and architectures that end with `LM`, `LMHeadModel` or
/// `ConditionalGeneration`. False where nothing says so, and for a configuration that cannot be
/// read.
bool predicts_tokens(const TensorBundle& bundle);

}  // namespace gbcompress
