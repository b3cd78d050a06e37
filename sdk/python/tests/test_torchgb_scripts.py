"""Scripts as torchGB's users write them, with the import changed: an MLP, a CNN and a GPT."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

from gbcompress import GenomicBottleneck  # noqa: E402  # torchGB's scripts: from torchGB import GenomicBottleneck


@pytest.fixture
def group(tmp_path: Path):
    """torchGB needs a process group, of one rank here."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def train(model: nn.Module, gnets: GenomicBottleneck, batches: list, loss_of) -> list[float]:
    """The loop of torchGB's examples."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    gnets.train()
    model.train()
    losses = []
    for data, targets in batches:
        optimizer.zero_grad()
        gnets.zero_grad()
        gnets.predict_weights()
        loss = loss_of(model(data), targets)
        loss.backward()
        gnets.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        gnets.step()
        losses.append(loss.item())
    return losses


def falls(losses: list[float], to: float) -> bool:
    first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
    return last < to * first


def test_mlp(group: None, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    model = DDP(model)
    gnets = GenomicBottleneck(model, 60, lr=3e-3)
    assert gnets.compression() > 10
    print(gnets)
    centers = torch.randn(10, 784)
    batches = []
    for _ in range(60):
        targets = torch.randint(0, 10, (64,))
        batches.append((centers[targets] + torch.randn(64, 784), targets))
    losses = train(model, gnets, batches, nn.CrossEntropyLoss())
    assert falls(losses, 0.9), losses
    for _ in range(2):  # as a script that saves after each epoch
        gnets.save(str(tmp_path / "gnets.gbz"))
    gnets.load(str(tmp_path / "gnets.gbz"))
    with torch.no_grad():
        gnets.predict_weights()
    assert nn.CrossEntropyLoss()(model(batches[-1][0]), batches[-1][1]).item() < losses[0]


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )  # fmt: skip
        self.fc = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.flatten(self.layers(x), 1))


def test_cnn(group: None) -> None:
    torch.manual_seed(0)
    model = DDP(CNN())
    gnets = GenomicBottleneck(model, 60, ignore_layers=["bias"], lr=1e-2, max_gnet_batchsize=2500)
    assert "layers.3.weight" in repr(gnets) and "bias" not in repr(gnets)
    colors = 2 * torch.randn(10, 3, 1, 1)
    batches = []
    for _ in range(60):
        targets = torch.randint(0, 10, (32,))
        batches.append((colors[targets] + 0.3 * torch.randn(32, 3, 8, 8), targets))
    losses = train(model, gnets, batches, nn.CrossEntropyLoss())
    assert falls(losses, 0.9), losses


class GPT(nn.Module):
    """Embeddings, causal encoder layers, a head."""

    def __init__(self, vocab: int = 50, width: int = 64, length: int = 24) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocab)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.transformer_encoder(hidden, mask=self.mask, is_causal=True))


def test_gpt(group: None) -> None:
    torch.manual_seed(0)
    model = DDP(GPT())
    config = {"hidden_dim": 32, "lr": 3e-3, "ignore_layers": ["head"]}
    gnets = GenomicBottleneck(model, 60, **config)
    table = repr(gnets)
    rows = {line.split()[0]: line.split()[1:4] for line in table.splitlines()}
    assert rows["transformer_encoder.layers.0.self_attn.in_proj_weight"] == ["192x64", "attention", "3"]
    assert "self_attn.out_proj.weight" in table and "linear1.weight" in table and "head" not in table
    assert gnets.get_num_params_gnet() + gnets.get_num_params_no_gnet() < sum(p.numel() for p in model.parameters())
    batches = []
    for _ in range(60):
        starts = torch.randint(0, 50, (16, 1))
        text = (starts + 3 * torch.arange(25)) % 50
        batches.append((text[:, :-1], text[:, 1:]))
    losses = train(model, gnets, batches, lambda out, targets: nn.functional.cross_entropy(out.flatten(0, 1), targets.flatten()))
    assert falls(losses, 0.8), losses
