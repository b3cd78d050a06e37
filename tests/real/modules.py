"""The models of calibrated.py as PyTorch modules whose tensors have the names of the files."""

from typing import List

import torch
from torch import nn
from torch.nn import functional

import nets


class Sentences(nn.Module):
    """all-MiniLM-L6-v2 in torch's own layers."""

    def __init__(self, state):
        super().__init__()
        for name, value in state.items():
            if not value.is_floating_point():
                continue
            path, leaf = name.rsplit(".", 1)
            place = self
            for part in path.split("."):
                if part not in place._modules:
                    place.add_module(part, nn.Module())
                place = place._modules[part]
            place.register_parameter(leaf, nn.Parameter(value.clone()))
        self._make_linear(self)

    def _make_linear(self, module):
        for name, child in list(module.named_children()):
            weight = child._parameters.get("weight")
            if weight is not None and weight.ndim == 2 and child._parameters.get("bias") is not None:
                linear = nn.Linear(weight.shape[1], weight.shape[0])
                linear.weight, linear.bias = weight, child._parameters["bias"]
                module._modules[name] = linear
            else:
                self._make_linear(child)

    def forward(self, *tokens):
        def linear(name, x):
            return self.get_submodule(name)(x)
        return torch.stack([sentence_vector(dict(self.named_parameters()), linear, t) for t in tokens])


def sentence_vector(s, linear, tokens, heads=12):
    """Mean of the last layer's outputs [width], of length 1, for tokens [n]."""
    def norm(x, name):
        return functional.layer_norm(x, x.shape[-1:], s[name + ".weight"], s[name + ".bias"], 1e-12)
    e = "embeddings."
    x = s[e + "word_embeddings.weight"][tokens] + s[e + "position_embeddings.weight"][:len(tokens)]
    x = norm(x + s[e + "token_type_embeddings.weight"][0], e + "LayerNorm")
    layer = 0
    while f"encoder.layer.{layer}.attention.self.query.weight" in s:
        p = f"encoder.layer.{layer}."
        q, k, v = (linear(p + f"attention.self.{n}", x).view(len(tokens), heads, -1).transpose(0, 1)
                   for n in ("query", "key", "value"))
        a = functional.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)
        x = norm(linear(p + "attention.output.dense", a) + x, p + "attention.output.LayerNorm")
        h = functional.gelu(linear(p + "intermediate.dense", x))
        x = norm(linear(p + "output.dense", h) + x, p + "output.LayerNorm")
        layer += 1
    return functional.normalize(x.mean(0), dim=0)


class Speaker(nn.Module):
    """Resemblyzer: three LSTM layers and a linear one."""

    def __init__(self, state):
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        self.load_state_dict({k: v for k, v in state.items() if k.startswith(("lstm.", "linear."))})

    def forward(self, mels):
        _, (hidden, _) = self.lstm(mels)
        return functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)


class Detector(nn.Module):
    """Silero VAD at 16 kHz: waves [n, samples] to the probability of speech [n, samples / 512]."""

    def __init__(self, state):
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, 128, bias=False)
        for i, (inputs, outputs, stride) in enumerate(((129, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)), 1):
            self.add_module(f"conv{i}", nn.Conv1d(inputs, outputs, 3, stride, 1))
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)
        self.load_state_dict(state)

    def forward(self, waves):
        x = functional.pad(waves, (64, 0)).unfold(1, 576, 512)  # [n, steps, 576]
        y = self.stft_conv(functional.pad(x.flatten(0, 1).unsqueeze(1), (0, 64), "reflect"))
        y = (y[:, :129] ** 2 + y[:, 129:] ** 2 + 1e-14).sqrt()
        y = torch.relu(self.conv2(torch.relu(self.conv1(y))))
        y = torch.relu(self.conv4(torch.relu(self.conv3(y))))
        steps = y.view(x.shape[0], x.shape[1], y.shape[1])
        h = torch.zeros_like(steps[:, 0])
        c = h
        hidden: List[torch.Tensor] = []  # TorchScript compiles this
        for t in range(steps.shape[1]):
            h, c = self.lstm_cell(steps[:, t], (h, c))
            hidden.append(torch.relu(h))
        logits = self.final_conv(torch.stack(hidden, 2))
        return torch.sigmoid(logits[:, 0])


class Embedder(nn.Module):
    """MobileNetV2 without a classifier, its convolutions and norms as modules."""

    def __init__(self, state):
        super().__init__()
        state = {k: v for k, v in state.items() if k.startswith("features.")}
        for name, value in state.items():
            path, leaf = name.rsplit(".", 1)
            *parents, last = path.split(".")
            place = self
            for part in parents:
                if part not in place._modules:
                    place.add_module(part, nn.Module())
                place = place._modules[part]
            if leaf == "weight" and value.ndim == 4:
                outputs, own, side = value.shape[0], value.shape[1], value.shape[2]
                groups = outputs if own == 1 else 1
                place.add_module(last, nn.Conv2d(own * groups, outputs, side, padding=side // 2, groups=groups, bias=False))
            elif leaf == "running_mean":
                place.add_module(last, nn.BatchNorm2d(len(value)))
        self.load_state_dict(state, strict=False)

    def _block(self, path, x, stride=1, relu=True):
        block, at = path.rsplit(".", 1)
        conv = self.get_submodule(path)
        conv.stride = (stride, stride)
        x = self.get_submodule(f"{block}.{int(at) + 1}")(conv(x))
        return functional.relu6(x) if relu else x

    def forward(self, x):
        x = self._block("features.0.0", x, 2)
        for i in range(1, 18):
            name, stride = f"features.{i}.conv.", 2 if i in (2, 4, 7, 14) else 1
            if i == 1:
                x = self._block(name + "3", self._block(name + "0", x), relu=False)
                continue
            y = self._block(name + "6", self._block(name + "3", self._block(name + "0", x), stride), relu=False)
            x = x + y if y.shape == x.shape else y
        return self._block("features.18.0", x).mean((2, 3))


def agrees(module, state, batch, net):
    """Whether a module gives what the plain function of nets.py gives."""
    with torch.no_grad():
        return torch.allclose(module(batch), getattr(nets, net)(state, batch), rtol=1e-3, atol=1e-4)
