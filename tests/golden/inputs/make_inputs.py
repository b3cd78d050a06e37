#!/usr/bin/env python3
"""Writes the small model files of this folder with PyTorch 2.11, as people save them.

    python3 make_inputs.py [FOLDER]

Every file holds (or leads to) the tensors of expected.json: name, dtype, shape and the bytes in
hexadecimal, row-major. Numbers come from a counter, so that a second run writes the same tensors.
"""

import collections
import json
import pathlib
import sys
import warnings

import torch

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.tied = torch.nn.Linear(4, 3)
        self.tied.weight = self.fc.weight
        self.register_buffer("window", torch.ones(3), persistent=False)

    def forward(self, x):
        return self.norm(self.fc(x) + self.tied(x)) * self.window


def filled(module):
    with torch.no_grad():
        for i, value in enumerate(module.state_dict().values()):
            if value.is_floating_point():
                value.copy_((torch.arange(value.numel()) * 7 % 13 / 8 + i).view(value.shape))
    return module


def trained():
    net = filled(Net())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.0)
    net(torch.arange(8.0).view(2, 4)).sum().backward()
    optimizer.step()
    filled(net)
    return net, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 5)


def dtypes():
    wide = torch.arange(6)
    state = {str(t).split(".")[1]: wide.to(t) for t in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
        torch.bfloat16, torch.float32, torch.float64)}
    for t in (torch.uint16, torch.uint32, torch.uint64):
        state[str(t).split(".")[1]] = wide.to(t)
    for t in (torch.float8_e4m3fn, torch.float8_e5m2):
        state[str(t).split(".")[1]] = wide.float().to(t)
    state["transposed"] = torch.arange(6.0).view(2, 3).t()
    state["column"] = torch.arange(6.0).view(2, 3)[:, 1]
    state["scalar"] = torch.tensor(7)
    state["empty"] = torch.zeros(0, 4)
    state["nan"] = torch.tensor([float("nan"), 1.0])
    return state


def described(state):
    return {name: [str(value.dtype).split(".")[1], list(value.shape),
                   bytes(value.detach().contiguous().view(-1).view(torch.uint8).tolist()).hex()
                   if value.numel() else ""]
            for name, value in state.items()}


def main():
    expected = {}

    def save(name, value, state, **options):
        torch.save(value, OUT / name, **options)
        expected[name] = described(state)

    old = {"_use_new_zipfile_serialization": False}
    net, optimizer, scheduler = trained()
    model = collections.OrderedDict(net.state_dict())
    state = dtypes()
    save("zip.pt", model, model)
    save("old.pth", model, model, **old)
    save("dtypes.pt", state, state)
    save("dtypes_old.bin", state, state, **old)
    save("protocol4.pt", model, model, pickle_protocol=4, **old)
    checkpoint = {"epoch": 3, "model": model, "optimizer": optimizer.state_dict(),
                  "scheduler": scheduler.state_dict(), "loss": torch.tensor(0.5)}
    save("checkpoint.pth.tar", checkpoint, model, **old)
    save("parallel.pt", {"state_dict": {"module." + k: v for k, v in model.items()}}, model)
    lightning = {"epoch": 1, "global_step": 10, "pytorch-lightning_version": "2.4.0",
                 "state_dict": model, "loops": {"fit_loop": {"state_dict": {}}},
                 "callbacks": {"ModelCheckpoint": {"best_model_score": torch.tensor(0.5)}},
                 "optimizer_states": [optimizer.state_dict()], "lr_schedulers": [scheduler.state_dict()],
                 "hparams_name": "kwargs", "hyper_parameters": {"lr": 0.1}}
    save("lightning.ckpt", lightning, model)
    save("parameters.pt", dict(net.named_parameters(remove_duplicate=False)),
         dict(net.named_parameters(remove_duplicate=False)))
    save("gan.pt", {"generator": model, "discriminator": model}, {})
    save("module.pt", net, {})
    save("optimizer.pt", {"optimizer": optimizer.state_dict(), "epoch": 3}, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.quantize_per_tensor(torch.arange(4.0), 0.1, 0, torch.qint8)
        save("quantised.pt", {"w": quantised}, {}, **old)
        exported = torch.export.export(filled(Net()).eval(), (torch.zeros(2, 4),))
        torch.export.save(exported, OUT / "exported.pt2")
    expected["exported.pt2"] = described(exported.state_dict)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(tensors)}" for name, tensors in expected.items())
    (OUT / "expected.json").write_text("{" + lines + "}\n")


if __name__ == "__main__":
    main()
