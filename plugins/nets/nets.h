#pragma once
/// Nets that are chains of stages, for strategies that train layer by layer.

#include <gbcompress/registry.h>

namespace gbcompress::nets {

/// conv1 to conv5 (3x3, ELU, halving max-pool) with c, c, 2c, 2c, 4c channels, then fc; c from the
/// options ("simple-vgg:32"), else from the weights, else 128. (Ernoult et al., arXiv 2201.13415.)
/// Input [3, 32, 32].
BuiltModel simple_vgg(const ModelRequest& request);

/// conv1 (32, 5x5), conv2 (64, 5x5), each with ELU and max-pool 3/2, fc1 (512) with ELU, fc2 (10):
/// the same paper's smallest net. Input [1, 28, 28].
BuiltModel lenet_dtp(const ModelRequest& request);

/// Configuration A of Simonyan and Zisserman (arXiv 1409.1556) for images of 32 x 32, with batch
/// norms and one linear layer behind the last pool.
BuiltModel vgg11(const ModelRequest& request);

/// Embedding, layers, masked mean over positions, linear:
/// "lstm-classifier:VOCABULARY-WIDTH-LAYERS-CLASSES" with LSTMs, "transformer-classifier:..." with
/// encoders of four heads (one where four do not divide the width) and sines of the position. Input
/// [positions] int64, below the vocabulary; 0 is padding, which no mean and no attention counts.
BuiltModel lstm_classifier(const ModelRequest& request);
BuiltModel transformer_classifier(const ModelRequest& request);

}  // namespace gbcompress::nets
