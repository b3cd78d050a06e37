"""Parameters that become integers: their latents, steps and scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import _core
from ._errors import GbzError
from ._rate import array_of, integers_of, rate, round_to, step_indices, step_sizes

#: The first step as a part of the values' deviation; where all are alike, by itself. As the core.
_FIRST_STEP, _STEP_WITHOUT_SPREAD = 0.2, 0.02
_FIRST_SCALE = 3.0
_LEAST_SCALE, _LARGEST_SCALE = 0.02, 1000.0
_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


@dataclass
class Entry:
    """One parameter that is trained as integers."""

    name: str
    parameter: torch.nn.Parameter
    rows: int  #: steps it has: 1, or one for each of its first dimension
    latent: Tensor  #: float32, contiguous, of the parameter's shape
    inverse_scale: Tensor  #: of the same shape, in units of the step
    bits: float | Tensor = 0.0  #: at the last step, noise included
    chosen: NDArray[np.int32] | None = None  #: integers instead of the nearest, until the next step
    direct: bool = field(init=False)  #: kernels may write the parameter itself

    def __post_init__(self) -> None:
        p = self.parameter
        self.direct = p.dtype == torch.float32 and p.is_contiguous()

    @property
    def numbers(self) -> int:
        return self.latent.numel()

    def write(self, values: Tensor) -> None:
        """Numbers of the latent's shape into the parameter."""
        self.parameter.data.copy_(values)


def deviation(values: Tensor) -> float:
    """Of all numbers, 0 where there are fewer than two. In double, in NumPy's one order: the same
    on every rank and for any number of threads."""
    array = array_of(values.cpu()).astype(np.float64)
    return float(array.std(ddof=1)) if array.size > 1 else 0.0


class Latents:
    """All such parameters of one device, and what learns their steps."""

    def __init__(
        self, parameters: Sequence[tuple[str, torch.nn.Parameter, bool]], step_speed: float
    ) -> None:
        """``parameters``: name, parameter, whether its rows have steps of their own."""
        self.step_speed = step_speed
        self.entries: list[Entry] = []
        logs: list[Tensor] = []
        device = parameters[0][1].device
        for name, parameter, row_steps in parameters:
            latent = parameter.detach().float().clone(memory_format=torch.contiguous_format)
            rows = int(latent.shape[0]) if row_steps and latent.dim() > 1 else 1
            spread = deviation(latent)
            first = _FIRST_STEP * spread if spread > 0 else _STEP_WITHOUT_SPREAD
            logs.append(torch.full((rows,), float(np.log(first)) / step_speed))
            scale = torch.full_like(latent, 1 / _FIRST_SCALE)
            self.entries.append(Entry(name, parameter, rows, latent, scale))
        #: Logarithms of all steps over step_speed, and their moments; the optimiser of the model
        #: does not know of them.
        self.log_steps = torch.cat(logs).to(device)
        self.first, self.second = (torch.zeros_like(self.log_steps) for _ in range(2))
        counts = torch.tensor([entry.rows for entry in self.entries])
        self._owner = torch.repeat_interleave(counts).to(device)
        ends = np.cumsum([entry.rows for entry in self.entries])
        self._parts = [slice(int(e - n.rows), int(e)) for e, n in zip(ends, self.entries, strict=True)]
        self._scratch: dict[int, Tensor] = {}
        self.update_steps()

    def update_steps(self) -> None:
        """Steps as files store them, from their logarithms."""
        self.indices = step_indices(self.log_steps * self.step_speed)
        self.steps = step_sizes(self.indices)

    def steps_of(self, index: int) -> Tensor:
        return self.steps[self._parts[index]]

    def indices_of(self, index: int) -> list[int]:
        return [int(k) for k in self.indices[self._parts[index]].tolist()]

    def predict(self) -> None:
        """Rounded values into the parameters."""
        for i, entry in enumerate(self.entries):
            steps = self.steps_of(i)
            if entry.chosen is not None:
                integers = torch.from_numpy(entry.chosen).to(entry.latent.device, torch.float32)
                values = integers.reshape(entry.rows, -1) * steps.unsqueeze(1)
                entry.write(values.reshape(entry.latent.shape))
            elif entry.direct:
                round_to(entry.latent, steps, entry.parameter.data)
            else:
                values = torch.empty_like(entry.latent)
                round_to(entry.latent, steps, values)
                entry.write(values)

    def _gradient(self, entry: Entry) -> Tensor:
        """The parameter's gradient as float32 in the latent's order; zeros where there is none."""
        if entry.parameter.grad is None:
            entry.parameter.grad = torch.zeros_like(entry.parameter)
        gradient = entry.parameter.grad
        if gradient.dtype == torch.float32 and gradient.is_contiguous():
            return gradient
        return gradient.float().contiguous()

    def add_rate(self, weight: float, seed: int, step: int) -> Tensor:
        """Adds the rate's gradients to ``.grad``.

        Returns:
            Gradients of the logarithms of all steps, float64: not finite where any gradient of
            their tensor is not.
        """
        slopes = []
        for i, entry in enumerate(self.entries):
            gradient = self._gradient(entry)
            key = _core.noise_key(seed, entry.name, step)
            entry.bits, slope = rate(
                entry.latent, self.steps_of(i), entry.inverse_scale, weight, key, gradient
            )
            slopes.append(slope)
            grad = entry.parameter.grad
            if grad is not None and grad.data_ptr() != gradient.data_ptr():
                grad.copy_(gradient)
        return torch.cat(slopes)

    def not_finite(self, slopes: Tensor) -> str | None:
        """Name of the first parameter whose gradient is not finite."""
        bad = ~torch.isfinite(slopes)
        if not bool(bad.any()):
            return None
        return self.entries[int(self._owner[bad.nonzero()[0, 0]])].name

    def put(self) -> None:
        """Latents into the parameters, for the optimiser to move."""
        for entry in self.entries:
            if not entry.direct and entry.parameter.dtype != torch.float32:
                self._scratch[id(entry)] = entry.latent.to(entry.parameter.dtype).float()
            entry.write(entry.latent)
            entry.chosen = None

    def take(self) -> None:
        """What the optimiser made of them. Parameters of fewer bits tell how they moved."""
        for entry in self.entries:
            before = self._scratch.pop(id(entry), None)
            if before is None:
                entry.latent.copy_(entry.parameter.data)
            else:
                entry.latent.add_(entry.parameter.data.float() - before)

    def learn_steps(self, slopes: Tensor, rates: Sequence[float], updates: int) -> None:
        """One update of Adam of the logarithms. ``rates``: one for each entry."""
        gradient = (slopes * self.step_speed).to(self.first.dtype)
        self.first.lerp_(gradient, 1 - _BETA1)
        self.second.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        size = torch.tensor(rates, dtype=torch.float32, device=self._owner.device)[self._owner]
        root = self.second.sqrt() / (1 - _BETA2**updates) ** 0.5 + _EPS
        self.log_steps.sub_(size * (self.first / (1 - _BETA1**updates)) / root)
        self.update_steps()

    def expect(self, contexts: bool) -> None:
        """New scales from the present integers: the coder's for each number, or one a tensor."""
        for i, entry in enumerate(self.entries):
            steps = self.steps_of(i)
            if contexts:
                shape = tuple(entry.latent.shape)
                scales = _core.expected_scales(shape, integers_of(entry.latent, steps))
                entry.inverse_scale.copy_(torch.from_numpy(1 / scales).reshape(entry.latent.shape))
            else:
                rows = entry.latent.reshape(entry.rows, -1) / steps.unsqueeze(1)
                mean = float(array_of(rows.cpu()).astype(np.float64).__abs__().mean())
                entry.inverse_scale.fill_(1 / min(max(mean, _LEAST_SCALE), _LARGEST_SCALE))

    def scale_steps(self, factor: float) -> None:
        """Multiplies all steps; scales, in units of them, follow."""
        self.log_steps.add_(float(np.log(factor)) / self.step_speed)
        self.update_steps()
        for entry in self.entries:
            entry.inverse_scale.mul_(factor).clamp_(1 / _LARGEST_SCALE, 1 / _LEAST_SCALE)

    def integers(self, index: int) -> NDArray[np.int32]:
        """As they stand: chosen ones, or the nearest."""
        entry = self.entries[index]
        if entry.chosen is not None:
            return entry.chosen
        return integers_of(entry.latent, self.steps_of(index))

    def state(self) -> dict[str, object]:
        """Everything that the next step depends on; tensors are copies."""
        return {
            "log_steps": self.log_steps.clone(),
            "first": self.first.clone(),
            "second": self.second.clone(),
            "latents": {entry.name: entry.latent.clone() for entry in self.entries},
            "inverse_scales": {entry.name: entry.inverse_scale.clone() for entry in self.entries},
        }

    def restore(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Takes state() back. The caller has seen to it that it fits."""
        for name, tensor in (
            ("log_steps", self.log_steps),
            ("first", self.first),
            ("second", self.second),
        ):
            tensor.copy_(state[name])  # type: ignore[arg-type]
        for entry in self.entries:
            entry.latent.copy_(state["latents"][entry.name])
            entry.inverse_scale.copy_(state["inverse_scales"][entry.name])
            entry.chosen = None
        self.update_steps()

    def check(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Raises GbzError where state() is of other parameters."""
        latents = state["latents"]
        for entry in self.entries:
            if entry.name not in latents or latents[entry.name].shape != entry.latent.shape:
                raise GbzError(f"the state is of another model: {entry.name}", "shape_mismatch")
        if len(latents) != len(self.entries) or (
            state["log_steps"].shape != self.log_steps.shape  # type: ignore[attr-defined]
        ):
            raise GbzError("the state has other parameters than the model", "shape_mismatch")
