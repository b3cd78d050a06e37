"""Values that do not fit the type they are read as, and targets of models with tied tensors."""

import numpy as np
import pytest
import torch

import gbcompress as gbc


@pytest.fixture
def wide(tmp_path):
    draw = np.random.default_rng(3)
    tensors = {
        "far": draw.standard_normal((300, 80)).astype(np.float32),
        "near": draw.standard_normal((300, 80)).astype(np.float32),
        "mask": np.where(draw.random((20, 20)) < 0.5, 0, -np.inf).astype(np.float32),
        "double": np.full((3, 4), 1e60),
    }
    tensors["far"][200, 7] = -1.5e5
    for name, options in (("exact", {"lossless": True}), ("lossy", {"ratio": 3, "exact": ["mask", "double"]})):
        gbc.save_file(tensors, str(tmp_path / f"{name}.gbz"), **options)
    return tmp_path


@pytest.mark.parametrize("name", ["exact", "lossy"])
def test_a_value_beyond_the_type_is_an_error(wide, name):
    file = str(wide / f"{name}.gbz")
    with gbc.open(file, dtype="float16") as half:
        with pytest.raises(gbc.UsageError, match=r"far holds magnitudes up to 1[45]\d{4}, which F16 does not"):
            half.get_tensor("far")
        with pytest.raises(gbc.UsageError, match="far holds"):
            half.get_slice("far")[190:210]
        assert np.isfinite(half.get_tensor("near")).all()
        assert np.isinf(half.get_tensor("mask")).any(), "infinities of the tensor stay"
    with pytest.raises(gbc.UsageError, match="read it as F32"):
        with gbc.open(file, framework="torch", dtype=torch.float16) as half:
            half.get_tensor("far")
    with gbc.open(file, dtype="float32") as single:
        assert np.isfinite(single.get_tensor("far")).all()
        with pytest.raises(gbc.UsageError, match=r"double holds magnitudes up to .*e\+.*its own type, F64"):
            single.get_tensor("double")
    with pytest.raises(gbc.UsageError, match="holds magnitudes"):
        gbc.load_file(file, dtype="float16")


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embed = torch.nn.Embedding(512, 32)
        self.layer = torch.nn.Linear(32, 32)
        self.head = torch.nn.Linear(32, 512, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(torch.relu(self.layer(self.embed(x))))


def test_targets_count_tied_tensors_once(tmp_path):
    model = Tied().eval()
    elements = 512 * 32 + 32 * 32 + 32
    batches = [torch.randint(0, 512, (16, 8)) for _ in range(3)]
    report = gbc.calibrate(model, batches, str(tmp_path / "bits.gbz"), bits=4)
    assert report.file.file_bytes <= elements * 4 / 8
    report = gbc.save_file(model.state_dict(), str(tmp_path / "ratio.gbz"), ratio=6)
    assert report.file_bytes <= (4 * elements + 1000) / 6
    copies = {name: value.clone() for name, value in model.state_dict().items()}
    report = gbc.save_file(copies, str(tmp_path / "copies.gbz"), ratio=6)
    assert report.input_bytes > 4 * (elements + 512 * 32), "a file of copies holds both"


def test_experts_that_no_sample_reaches_stay_finite(tmp_path):
    class Experts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.route = torch.nn.Linear(96, 3)
            self.experts = torch.nn.ModuleList(torch.nn.Linear(96, 96) for _ in range(3))

        def forward(self, x):
            chosen = self.route(x).argmax(-1)
            result = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                if (chosen == i).any():
                    result = result.index_put((chosen == i,), expert(x[chosen == i]))
            return result

    torch.manual_seed(4)
    model = Experts().eval()
    model.route.bias.data[1] = -1e5
    inputs = torch.randn(2, 96)
    inputs[:, :50] = 0
    with pytest.warns(UserWarning):
        gbc.calibrate(model, [inputs], str(tmp_path / "e.gbz"), ratio=6)
    back = gbc.load_file(str(tmp_path / "e.gbz"), framework="torch")
    gbc.save_file(model.state_dict(), str(tmp_path / "f.gbz"), ratio=6)
    without = gbc.load_file(str(tmp_path / "f.gbz"), framework="torch")

    def error(found, name):
        own = model.state_dict()[name]
        return float((found[name] - own).square().sum() / own.square().sum())

    for name in model.state_dict():
        assert torch.isfinite(back[name]).all(), name
    assert error(back, "experts.1.weight") < 2 * error(without, "experts.1.weight") + 0.01


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no float4")
def test_pairs_of_4_bit_floats_come_back(tmp_path):
    file = str(tmp_path / "f.gbz")
    pairs = torch.arange(48, dtype=torch.uint8).reshape(6, 8)
    gbc.save_file({"q": pairs.view(torch.float4_e2m1fn_x2)}, file, lossless=True)
    back = gbc.load_file(file, framework="torch")["q"]
    assert back.dtype == torch.float4_e2m1fn_x2
    assert torch.equal(back.view(torch.uint8), pairs)
    with pytest.raises(gbc.GbzError, match="framework='torch'"):
        gbc.load_file(file)
