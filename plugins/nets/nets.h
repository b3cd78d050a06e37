#pragma once
/// Nets that are chains of stages, for strategies that train layer by layer.

#include <gbcompress/registry.h>

namespace gbcompress::nets {

// Options are ARCH:FIRST:SECOND. The number of classes is 1 to 1,048,576; without the option it is
// that of the weights, else 10.

/// conv1, conv2, ... (3x3, ELU, halving max-pool), then fc. "simple-vgg[:CHANNELS[:CLASSES]]": the
/// channels of one to five convolutions ("128,256,512"), or c for c, c, 2c, 2c, 4c; else those of
/// the weights, else c = 128. (Ernoult et al., arXiv 2201.13415.) Input [3, 32, 32].
BuiltModel simple_vgg(const ModelRequest& request);

/// conv1 (32, 5x5), conv2 (64, 5x5), each with ELU and max-pool 3/2, fc1 (512) with ELU, fc2 (10):
/// the same paper's smallest net. "lenet-dtp[:CLASSES]". Input [1, 28, 28].
BuiltModel lenet_dtp(const ModelRequest& request);

/// Configuration A of Simonyan and Zisserman (arXiv 1409.1556) for images of 32 x 32, with batch
/// norms and one linear layer behind the last pool. "vgg11[:CLASSES]".
BuiltModel vgg11(const ModelRequest& request);

/// The VGG of the published code of pipelined associated learning
/// (github.com/nick880107-git/Pipeline-Associated-Learning): four blocks of 3x3 convolutions
/// without bias, batch norms and ReLU with 128, 256 | 256, 512 | 512 | 512 channels, each with a
/// halving max-pool, then linear 2500 with a sigmoid and linear. "vgg-al[:CLASSES]". Input [3, 32,
/// 32].
BuiltModel vgg_al(const ModelRequest& request);

/// ResNet-18 and ResNet-34 (He et al., arXiv 1512.03385, option B) for images of 32 x 32: a 3x3
/// stem and no first pool, as the published code of distributed target propagation has it
/// (github.com/amoudgl/distributed-dtp). Stages are stem, layer1 to layer4, fc. "resnet18[:CLASSES
/// [:plain]]"; plain: without batch norms, the default of that code. Input [3, 32, 32].
BuiltModel resnet18(const ModelRequest& request);
BuiltModel resnet34(const ModelRequest& request);

/// Embedding, layers, masked mean over positions, linear:
/// "lstm-classifier:VOCABULARY-WIDTH-LAYERS-CLASSES" with LSTMs, "transformer-classifier:..." with
/// encoders of four heads (one where four do not divide the width) and sines of the position. Input
/// [positions] int64, below the vocabulary; 0 is padding, which no mean and no attention counts.
/// ":DROPOUT" behind it, such as 0.3: of what the embedding and each layer give, keyed by sample
/// and step. "bilstm-classifier:..." has LSTMs of both directions, whose outputs are added up.
BuiltModel lstm_classifier(const ModelRequest& request);
BuiltModel bilstm_classifier(const ModelRequest& request);
BuiltModel transformer_classifier(const ModelRequest& request);

/// A language model: tables of tokens and positions, pre-norm blocks of causal attention and a GELU
/// MLP of 4 widths, a last norm and a linear layer without bias, with GPT-2's first values:
/// "gpt:LAYERS-WIDTH-HEADS-CONTEXT[:VOCABULARY]". Without VOCABULARY: that of the weights, else
/// 256, which suffices for `text:FILE`. Input [positions] int64, at most CONTEXT; scores of the
/// next token for every position. It has no stages: strategies other than backprop need one
/// prediction a sample.
BuiltModel gpt(const ModelRequest& request);

/// Layers that the name spells out as PyTorch's constructors are called, one after another:
/// "sequential:SHAPE/STAGE/STAGE..." with the shape of an input and, for each stage, its layers
/// separated by commas: "sequential:1x28x28/Conv2d(1,8,5),ReLU(),MaxPool2d(2)/Flatten(),
/// Linear(1152,10)". Pairs are "3x5". Linear, Conv2d, BatchNorm1d, BatchNorm2d, ReLU, ELU, Tanh,
/// Sigmoid, MaxPool2d, AdaptiveAvgPool2d, Flatten, Identity. A stage is called by the number of its
/// first layer; weights are those of one torch.nn.Sequential of all layers: "0.weight".
BuiltModel sequential(const ModelRequest& request);

}  // namespace gbcompress::nets
