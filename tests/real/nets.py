"""Forward passes of the models on state dicts, in our own words: dict of tensors in, tensors out."""

import torch
import torch.nn.functional as F


def crepe(s, frames):
    """Pitch net of torchcrepe. frames: [n, 1024], normalised; gives the 360 pitch bins' probabilities [n, 360]."""
    x = frames[:, None, :, None]
    for i in range(1, 7):
        x = F.pad(x, (0, 0, 254, 254) if i == 1 else (0, 0, 31, 32))
        x = F.relu(F.conv2d(x, s[f"conv{i}.weight"], s[f"conv{i}.bias"], stride=(4, 1) if i == 1 else 1))
        x = F.batch_norm(x, *(s[f"conv{i}_BN.{p}"] for p in ("running_mean", "running_var", "weight", "bias")),
                         eps=0.0010000000474974513)
        x = F.max_pool2d(x, (2, 1), (2, 1))
    x = x.permute(0, 2, 1, 3).reshape(len(x), -1)
    return torch.sigmoid(F.linear(x, s["classifier.weight"], s["classifier.bias"]))


def conv_prelu(s, x, i):
    return F.prelu(F.conv2d(x, s[f"conv{i}.weight"], s[f"conv{i}.bias"]), s[f"prelu{i}.weight"])


def dense(s, x, name):
    return F.linear(x, s[name + ".weight"], s[name + ".bias"])


def pnet(s, x):
    """First face detector of facenet-pytorch. x: [n, 3, h, w] in -1..1; gives [places, 6]: class logits and box."""
    x = F.max_pool2d(conv_prelu(s, x, 1), 2, 2, ceil_mode=True)
    x = conv_prelu(s, conv_prelu(s, x, 2), 3)
    both = [F.conv2d(x, s[f"conv4_{i}.weight"], s[f"conv4_{i}.bias"]) for i in (1, 2)]
    return torch.cat(both, 1).permute(0, 2, 3, 1).reshape(-1, 6)


def rnet(s, x):
    """Second face detector. x: [n, 3, 24, 24]; gives [n, 6]."""
    x = F.max_pool2d(conv_prelu(s, x, 1), 3, 2, ceil_mode=True)
    x = F.max_pool2d(conv_prelu(s, x, 2), 3, 2, ceil_mode=True)
    x = conv_prelu(s, x, 3).permute(0, 3, 2, 1).reshape(len(x), -1)
    x = F.prelu(dense(s, x, "dense4"), s["prelu4.weight"])
    return torch.cat([dense(s, x, f"dense5_{i}") for i in (1, 2)], 1)


def onet(s, x):
    """Third face detector. x: [n, 3, 48, 48]; gives [n, 16]: class logits, box, five points of the face."""
    x = F.max_pool2d(conv_prelu(s, x, 1), 3, 2, ceil_mode=True)
    x = F.max_pool2d(conv_prelu(s, x, 2), 3, 2, ceil_mode=True)
    x = F.max_pool2d(conv_prelu(s, x, 3), 2, 2, ceil_mode=True)
    x = conv_prelu(s, x, 4).permute(0, 3, 2, 1).reshape(len(x), -1)
    x = F.prelu(dense(s, x, "dense5"), s["prelu5.weight"])
    return torch.cat([dense(s, x, f"dense6_{i}") for i in (1, 2, 3)], 1)


def silero(s, waves):
    """Voice activity net at 16 kHz. waves: [n, samples]; gives the probability of speech [n, samples / 512]."""
    n = waves.shape[0]
    x = F.pad(waves, (64, 0))
    h = c = torch.zeros(n, 128)
    gates = torch.nn.LSTMCell(128, 128)
    gates.load_state_dict({k.split(".")[-1]: v for k, v in s.items() if k.startswith("lstm_cell.")})
    probabilities = []
    for at in range(64, x.shape[1] - 511, 512):
        y = F.pad(x[:, at - 64:at + 512].unsqueeze(1), (0, 64), "reflect")
        y = F.conv1d(y, s["stft_conv.weight"], stride=128)
        y = (y[:, :129] ** 2 + y[:, 129:] ** 2).sqrt()
        for i, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
            y = F.relu(F.conv1d(y, s[f"conv{i}.weight"], s[f"conv{i}.bias"], stride=stride, padding=1))
        h, c = gates(y.squeeze(-1), (h, c))
        logit = F.conv1d(F.relu(h).unsqueeze(-1), s["final_conv.weight"], s["final_conv.bias"])
        probabilities.append(torch.sigmoid(logit)[:, 0, 0])
    return torch.stack(probabilities, 1)


def speaker(s, mels):
    """Voice encoder of Resemblyzer. mels: [n, 160, 40]; gives unit vectors [n, 256]."""
    lstm = torch.nn.LSTM(40, 256, 3, batch_first=True)
    lstm.load_state_dict({k[5:]: v for k, v in s.items() if k.startswith("lstm.")})
    _, (hidden, _) = lstm(mels)
    return F.normalize(F.relu(dense(s, hidden[-1], "linear")), dim=1)


def attacut(s, characters, syllables=None):
    """Thai word splitter. characters, syllables: [n] int64; gives the logit of a word's start [n, 1]."""
    if syllables is None:
        x = s["embeddings.weight"][characters]
    else:
        x = torch.cat([s["ch_embeddings.weight"][characters], s["sy_embeddings.weight"][syllables]], 1)
    layers = []
    for i, kernel, dilation in ((1, 3, 1), (2, 5, 3), (3, 9, 2)):
        name = f"conv{i}.conv."
        y = F.conv1d(x.T[None], s[name + "weight"], s[name + "bias"], padding=kernel // 2 * dilation, dilation=dilation)
        if f"conv{i}.bn.weight" in s:
            y = F.batch_norm(y, *(s[f"conv{i}.bn.{p}"] for p in ("running_mean", "running_var", "weight", "bias")))
        layers.append(y)
    x = torch.stack(layers).amax(0)[0].T
    return dense(s, F.relu(dense(s, x, "linear1")), "linear2")


def bert(s, tokens):
    """Sentence embeddings of a six-layer BERT with 12 heads: list of token lists in, unit vectors [n, 384] out."""
    vectors = []
    for one in tokens:
        embedding = "embeddings."
        x = s[embedding + "word_embeddings.weight"][torch.tensor(one)]
        x = x + s[embedding + "position_embeddings.weight"][: len(one)] + s[embedding + "token_type_embeddings.weight"][0]
        x = layer_norm(s, x, embedding + "LayerNorm")
        for i in range(6):
            x = bert_layer(s, x, f"encoder.layer.{i}.")
        vectors.append(F.normalize(x.mean(0), dim=0))
    return torch.stack(vectors)


def layer_norm(s, x, name, eps=1e-12):
    return F.layer_norm(x, x.shape[-1:], s[name + ".weight"], s[name + ".bias"], eps)


def bert_layer(s, x, name):
    q, k, v = (dense(s, x, f"{name}attention.self.{p}").view(len(x), 12, 32).transpose(0, 1)
               for p in ("query", "key", "value"))
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape(len(x), 384)
    x = layer_norm(s, x + dense(s, mixed, name + "attention.output.dense"), name + "attention.output.LayerNorm")
    hidden = F.gelu(dense(s, x, name + "intermediate.dense"))
    return layer_norm(s, x + dense(s, hidden, name + "output.dense"), name + "output.LayerNorm")


def conformer(s, mels):
    """Pitch net of torchfcpe (convolutions only). mels: [n, frames, 128]; gives 360 bins' probabilities [n, frames, 360]."""
    x = F.conv1d(mels.transpose(1, 2), s["input_stack.0.weight"], s["input_stack.0.bias"], padding=1)
    x = F.leaky_relu(F.group_norm(x, 4, s["input_stack.1.weight"], s["input_stack.1.bias"]))
    x = F.conv1d(x, s["input_stack.3.weight"], s["input_stack.3.bias"], padding=1).transpose(1, 2)
    for i in range(6):
        name = f"net.encoder_layers.{i}.conformer.net."
        y = layer_norm(s, x, name + "0", 1e-5).transpose(1, 2)
        y = F.glu(F.conv1d(y, s[name + "2.weight"], s[name + "2.bias"]), 1)
        y = F.silu(F.conv1d(y, s[name + "4.conv.weight"], s[name + "4.conv.bias"], padding=15, groups=y.shape[1]))
        x = x + F.conv1d(y, s[name + "6.weight"], s[name + "6.bias"]).transpose(1, 2)
    weight = torch._weight_norm(s["output_proj.weight_v"], s["output_proj.weight_g"], 0)
    return torch.sigmoid(F.linear(layer_norm(s, x, "norm", 1e-5), weight, s["output_proj.bias"]))


def mobilenet(s, x):
    """MobileNetV2 without a classifier. x: [n, 3, h, w], normalised as for ImageNet; gives [n, 1280]."""

    def conv(name, x, stride=1, relu=True):
        block, at = name.rsplit(".", 1)
        weight, norm = s[name + ".weight"], f"{block}.{int(at) + 1}."
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2, groups=x.shape[1] // weight.shape[1])
        x = F.batch_norm(x, *(s[norm + p] for p in ("running_mean", "running_var", "weight", "bias")))
        return F.relu6(x) if relu else x

    x = conv("features.0.0", x, 2)
    for i in range(1, 18):
        name, stride = f"features.{i}.conv.", 2 if i in (2, 4, 7, 14) else 1
        if i == 1:
            x = conv(name + "3", conv(name + "0", x), relu=False)
            continue
        y = conv(name + "6", conv(name + "3", conv(name + "0", x), stride), relu=False)
        x = x + y if y.shape == x.shape else y
    return conv("features.18.0", x).mean((2, 3))
