"""Small models of kinds that nothing was tuned for, trained for a moment here: state dicts that look like real ones."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def pictures(count, seed):
    """Stripes of three directions in noise: float32 [count, 3, 16, 16] and their directions [count]."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.arange(count) % 3
    y, x = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    angle = kind * math.pi / 3 + 0.2 * torch.randn(count, generator=draw)
    phase = 6 * torch.rand(count, generator=draw)
    wave = torch.sin((torch.cos(angle)[:, None, None] * x + torch.sin(angle)[:, None, None] * y) + phase[:, None, None])
    return wave[:, None] + 0.5 * torch.randn(count, 3, 16, 16, generator=draw), kind


def sequences(count, seed):
    """Digits 0..9, [count, 20], each the sum of the two before it modulo 10: predict the next [count]."""
    draw = torch.Generator().manual_seed(seed)
    rows = [torch.randint(10, (count,), generator=draw), torch.randint(10, (count,), generator=draw)]
    while len(rows) < 21:
        rows.append((rows[-1] + rows[-2]) % 10)
    return torch.stack(rows[:20], 1), rows[20]


def train(net, data, steps, rate=3e-3):
    """A few steps of AdamW on batches of 64; returns the optimiser."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.05)
    net.train()
    for step in range(steps):
        x, y = data(64, step)
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    net.eval()
    return optimizer


class Depthwise(nn.Module):
    """MobileNet's blocks: 1x1 up, 3x3 a channel, 1x1 down, each with a batch norm."""

    def __init__(self, width=24, blocks=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU6())
        wide = 4 * width
        self.blocks = nn.ModuleList(nn.Sequential(
            nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
            nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width)) for _ in range(blocks))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


def depthwise():
    """Every sixth wide channel is dead as weight decay leaves it: tiny weights, variance and factor."""
    net = Depthwise()
    train(net, pictures, 60)
    with torch.no_grad():
        for block in net.blocks:
            for conv, norm in ((block[0], block[1]), (block[3], block[4])):
                dead = torch.arange(conv.weight.shape[0]) % 6 == 0
                conv.weight[dead] *= 1e-7
                norm.running_var[dead] = 1e-14 * (1 + torch.rand(int(dead.sum())))
                norm.running_mean[dead] *= 1e-8
                norm.weight[dead] *= 1e-6
                norm.bias[dead] = -norm.bias[dead].abs() - 1e-3
    return net


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 24)
        self.gru = nn.GRU(24, 64, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.gru(self.embedding(x))[0][:, -1])


class Vision(nn.Module):
    """A vision transformer with a learned and a fixed table of positions, an index of pairs and a mask of infinities."""

    def __init__(self, width=48, depth=2):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 17, width))
        at, rate = torch.arange(17.0)[:, None], 1e4 ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("pos_table", torch.cat([torch.sin(at * rate), torch.cos(at * rate)], 1))
        self.register_buffer("inv_freq", rate)
        self.register_buffer("relative_position_index", torch.arange(17)[:, None] - torch.arange(17)[None, :] + 16)
        mask = torch.zeros(17, 17)
        mask[1:, 1:].masked_fill_((torch.arange(16)[:, None] // 8) != (torch.arange(16)[None, :] // 8), -math.inf)
        self.register_buffer("attn_mask", mask)
        self.bias_table = nn.Parameter(torch.zeros(33, 4))
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm1": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width),
            "norm2": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})
            for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 3)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed + 0.1 * self.pos_table
        bias = self.bias_table[self.relative_position_index].permute(2, 0, 1) + self.attn_mask
        for layer in self.layers:
            n, t, c = x.shape
            q, k, v = layer["qkv"](layer["norm1"](x)).view(n, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype)).transpose(1, 2).reshape(n, t, c)
            x = x + layer["proj"](y)
            x = x + layer["down"](F.gelu(layer["up"](layer["norm2"](x))))
        return self.head(self.norm(x[:, 0]))


def rescaled():
    """A convolutional net whose layers are scaled by 100, 1 and 1/100: the same function, other squares."""
    net = nn.Sequential(nn.Conv2d(3, 32, 5, 2, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
                        nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 3))
    train(net, pictures, 80)
    with torch.no_grad():
        scale = 1.0
        for layer, factor in ((net[0], 100.0), (net[2], 1.0), (net[4], 0.01)):
            scale *= factor
            layer.weight *= factor
            layer.bias *= scale
    return net


def packed_int8(net):
    """The matrices of a net as int8 with a scale a row and zero points, the rest as it is."""
    state = {}
    for name, value in net.state_dict().items():
        if value.dim() < 2 or not value.is_floating_point():
            state[name] = value.clone()
            continue
        flat = value.reshape(len(value), -1)
        scale = (flat.abs().amax(1, keepdim=True) / 127).clamp(min=1e-8)
        state[name + ".qweight"] = (flat / scale).round().to(torch.int8).view(value.shape)
        state[name + ".scale"] = scale
        state[name + ".zero_point"] = torch.zeros(len(value), dtype=torch.int32)
    return state


def checkpoint(net, optimizer):
    """What a training script saves: the model among the optimiser's, the scheduler's and other state."""
    return {"epoch": 7, "global_step": 4200, "best_metric": 0.93, "model": net.state_dict(),
            "optimizer": optimizer.state_dict(), "scheduler": {"last_epoch": 7, "base_lrs": [1e-3]},
            "args": {"lr": 1e-3, "name": "run"}, "history": [0.5, 0.4]}
