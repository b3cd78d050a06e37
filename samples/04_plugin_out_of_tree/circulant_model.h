#pragma once
/// A classifier with a layer that no built-in plugin knows.

#include <gbcompress/registry.h>

/// `circulant-net[:INPUTS-CLASSES]`, 64-10 unless said otherwise: a circulant layer, ReLU, and a
/// linear layer. @throws gbcompress::Error(kUsage)
gbcompress::BuiltModel make_circulant_net(const gbcompress::ModelRequest& request);
