#include <gbcompress/error.h>
#include <torch/torch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "nets.h"

namespace gbcompress::nets {
namespace {

namespace nn = torch::nn;

/// "LAYERS-WIDTH-HEADS-CONTEXT[:VOCABULARY]".
struct GptShape {
  std::int64_t layers, width, heads, context;
  std::int64_t vocabulary = 256;
};

constexpr std::int64_t kMaxVocabulary = 1 << 20;
/// Of the first weights, as in GPT-2.
constexpr double kGptDeviation = 0.02;

[[noreturn]] void refuse_gpt(const ModelRequest& request, const std::string& rule) {
  throw Error(Errc::kUsage, "--arch " + printable(request.arch) + ": " + rule);
}

/// Rows of the table of tokens in the given weights; nothing where there is none.
std::optional<std::int64_t> vocabulary_of(const ModelRequest& request) {
  for (const ParameterInfo& weight : request.weights)
    if (weight.name == "embedding.tokens.weight" && weight.shape.size() == 2 &&
        weight.shape[0] >= 1 && weight.shape[0] <= kMaxVocabulary)
      return weight.shape[0];
  return std::nullopt;
}

GptShape gpt_shape_of(const ModelRequest& request) {
  GptShape shape{};
  std::int64_t* const fields[] = {&shape.layers, &shape.width, &shape.heads, &shape.context,
                                  &shape.vocabulary};
  const std::int64_t most[] = {64, 8192, 256, 65'536, kMaxVocabulary};
  const char* at = request.options.data();
  const char* const end = at + request.options.size();
  for (int i = 0; i < 5; ++i) {
    const auto [stop, error] = std::from_chars(at, end, *fields[i]);
    const bool last = stop == end && i >= 3;
    if (error != std::errc() || *fields[i] < 1 || *fields[i] > most[i] ||
        !(last || (stop != end && *stop == (i < 3 ? '-' : ':') && i < 4)))
      refuse_gpt(
          request,
          "write layers (1 to 64), width (to 8192), heads (to 256) and context (to 65536), as "
          "in gpt:4-128-4-128, or with the size of the vocabulary, gpt:4-128-4-128:65");
    if (last) {
      if (i == 3) shape.vocabulary = vocabulary_of(request).value_or(256);
      break;
    }
    at = stop + 1;
  }
  if (shape.width % shape.heads != 0)
    refuse_gpt(request, "the width must be a multiple of the heads, got " +
                            std::to_string(shape.width) + " and " + std::to_string(shape.heads));
  return shape;
}

nn::Linear normal_linear(std::int64_t inputs, std::int64_t outputs, double deviation,
                         bool bias = true) {
  nn::Linear layer(nn::LinearOptions(inputs, outputs).bias(bias));
  nn::init::normal_(layer->weight, 0, deviation);
  if (bias) nn::init::zeros_(layer->bias);
  return layer;
}

/// Causal self-attention. Its name and those of its parameters are torch.nn.MultiheadAttention's:
/// the layer type "attention" gives query, key and value g-nets of their own.
struct MultiheadAttentionImpl : nn::Module {
  MultiheadAttentionImpl(std::int64_t width, std::int64_t count, double deviation) : heads(count) {
    in_proj_weight = register_parameter("in_proj_weight", at::empty({3 * width, width}));
    in_proj_bias = register_parameter("in_proj_bias", at::zeros({3 * width}));
    nn::init::normal_(in_proj_weight, 0, kGptDeviation);
    out_proj = register_module("out_proj", normal_linear(width, width, deviation));
  }
  /// @param x  [rows, positions, width]
  at::Tensor forward(const at::Tensor& x) {
    const std::int64_t rows = x.size(0), positions = x.size(1), width = x.size(2);
    const at::Tensor all = at::linear(x, in_proj_weight, in_proj_bias)
                               .view({rows, positions, 3, heads, width / heads})
                               .permute({2, 0, 3, 1, 4});
    const at::Tensor mixed = at::scaled_dot_product_attention(
        all[0], all[1], all[2], /*attn_mask=*/{}, /*dropout_p=*/0, /*is_causal=*/true);
    return out_proj->forward(mixed.transpose(1, 2).reshape({rows, positions, width}));
  }
  std::int64_t heads;
  at::Tensor in_proj_weight, in_proj_bias;
  nn::Linear out_proj{nullptr};
};
TORCH_MODULE(MultiheadAttention);

/// A pre-norm block: x + attention(norm(x)), then x + mlp(norm(x)).
struct GptBlockImpl : nn::Module {
  explicit GptBlockImpl(const GptShape& s) {
    // The sum over all residual branches begins with a deviation that no depth changes, as in
    // GPT-2.
    const double deviation = kGptDeviation / std::sqrt(2.0 * static_cast<double>(s.layers));
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({s.width})));
    attention = register_module("attention", MultiheadAttention(s.width, s.heads, deviation));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({s.width})));
    up = register_module("up", normal_linear(s.width, 4 * s.width, kGptDeviation));
    down = register_module("down", normal_linear(4 * s.width, s.width, deviation));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor mixed = x + attention->forward(norm1->forward(x));
    return mixed + down->forward(at::gelu(up->forward(norm2->forward(mixed)), "tanh"));
  }
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  MultiheadAttention attention{nullptr};
  nn::Linear up{nullptr}, down{nullptr};
};
TORCH_MODULE(GptBlock);

/// Tokens and positions, added up.
struct GptEmbeddingImpl : nn::Module {
  explicit GptEmbeddingImpl(const GptShape& s) {
    tokens = register_module("tokens", nn::Embedding(s.vocabulary, s.width));
    positions = register_module("positions", nn::Embedding(s.context, s.width));
    nn::init::normal_(tokens->weight, 0, kGptDeviation);
    nn::init::normal_(positions->weight, 0, kGptDeviation);
  }
  at::Tensor forward(const at::Tensor& x) {
    return tokens->forward(x) + positions->weight.narrow(0, 0, x.size(1));
  }
  nn::Embedding tokens{nullptr}, positions{nullptr};
};
TORCH_MODULE(GptEmbedding);

struct GptImpl : nn::Module {
  explicit GptImpl(const GptShape& s) : shape(s) {
    embedding = register_module("embedding", GptEmbedding(s));
    for (std::int64_t i = 0; i < s.layers; ++i)
      blocks.push_back(register_module("block" + std::to_string(i + 1), GptBlock(s)));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({s.width})));
    head = register_module("head",
                           normal_linear(s.width, s.vocabulary, kGptDeviation, /*bias=*/false));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    check(tokens);
    at::Tensor x = embedding->forward(tokens);
    for (GptBlock& block : blocks) x = block->forward(x);
    return head->forward(norm->forward(x));
  }
  void check(const at::Tensor& tokens) const {
    if (tokens.dim() != 2 || tokens.is_floating_point())
      throw Error(Errc::kShapeMismatch,
                  "a gpt takes windows of tokens, such as text:FILE; the data have other inputs");
    if (tokens.size(1) > shape.context)
      throw Error(Errc::kShapeMismatch,
                  "the gpt has a context of " + std::to_string(shape.context) +
                      " tokens, and the data have windows of " + std::to_string(tokens.size(1)) +
                      "; set data.context to at most " + std::to_string(shape.context));
    const auto largest = tokens.numel() > 0 ? tokens.max().item<std::int64_t>() : 0;
    if (largest >= shape.vocabulary)
      throw Error(Errc::kShapeMismatch,
                  "the gpt has a vocabulary of " + std::to_string(shape.vocabulary) +
                      ", and the data have the token " + std::to_string(largest));
  }
  GptShape shape;
  GptEmbedding embedding{nullptr};
  std::vector<GptBlock> blocks;
  nn::LayerNorm norm{nullptr};
  nn::Linear head{nullptr};
};

}  // namespace

BuiltModel gpt(const ModelRequest& request) {
  const auto net = std::make_shared<GptImpl>(gpt_shape_of(request));
  return {net, [net](const at::Tensor& tokens) { return net->forward(tokens); }};
}

}  // namespace gbcompress::nets
