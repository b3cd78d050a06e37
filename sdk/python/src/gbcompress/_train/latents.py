"""Parameters that become integers: their latents, steps and scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import _core
from .._errors import GbzError, mismatch, usage
from .rate import array_of, integers_of, rate, round_to, step_indices, step_sizes

#: The first step size as a part of the values' standard deviation, and where that is 0. As the core.
_FIRST_STEP, _STEP_WITHOUT_SPREAD = 0.2, 0.02
_FIRST_SCALE = 3.0
_LEAST_SCALE, _LARGEST_SCALE = 0.02, 1000.0
_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


@dataclass
class LatentTensor:
    """A parameter that is trained as integers."""

    name: str
    parameter: torch.nn.Parameter
    rows: int  #: how many step sizes: 1, or one for each index of the first dimension
    latent: Tensor  #: float32, contiguous, of the parameter's shape
    inverse_scale: Tensor  #: of the same shape, in units of the step
    chosen: NDArray[np.int32] | None = None  #: integers in place of the nearest ones, until the next step
    numbers: int = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = self.latent.numel()

    def direct(self) -> bool:
        """Whether kernels may write to the parameter directly."""
        p = self.parameter
        return p.dtype is torch.float32 and p.is_contiguous()

    def gradient(self) -> Tensor:
        """The parameter's gradient itself; zeros where there is none.

        Raises:
            UsageError: it is sparse, or the parameter was moved or replaced since prepare().
        """
        grad = self.parameter.grad
        if grad is None:
            grad = self.parameter.grad = torch.zeros_like(self.parameter)
        if grad.layout is not torch.strided:
            raise usage(f"the gradient of {self.name} is sparse; make its module with sparse=False")
        if grad.device != self.latent.device or grad.numel() != self.numbers:
            raise usage(
                f"{self.name} was moved or replaced since prepare(); call prepare() after that"
            )
        return grad

    def write(self, values: Tensor) -> None:
        """Writes values of the latent's shape into the parameter."""
        self.parameter.data.copy_(values)


def deviation(values: Tensor) -> float:
    """Standard deviation of all values, 0 where there are fewer than two. In double and in NumPy's
    order: the same on every rank and for any number of threads."""
    array = array_of(values.cpu()).astype(np.float64)
    return float(array.std(ddof=1)) if array.size > 1 else 0.0


def _parts_of(memory: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Consecutive parts of the memory, with the shapes of the given tensors."""
    ends = np.cumsum([p.numel() for p in like])
    return [memory[end - p.numel() : end].view(p.shape) for end, p in zip(ends, like, strict=True)]


class Latents:
    """All parameters of one device that are trained as integers, and the training of their step sizes, in
    operations of torch."""

    def __init__(
        self, parameters: Sequence[tuple[str, torch.nn.Parameter, bool]], step_speed: float
    ) -> None:
        """``parameters``: name, parameter, whether its rows have step sizes of their own."""
        self.step_speed = step_speed
        self.entries: list[LatentTensor] = []
        logs: list[Tensor] = []
        owners = [parameter for _, parameter, _ in parameters]
        device = owners[0].device
        total = sum(p.numel() for p in owners)
        #: Of all entries, one after another.
        self.latents = torch.empty(total, dtype=torch.float32, device=device)
        self.inverse_scales = torch.full_like(self.latents, 1 / _FIRST_SCALE)
        parts = (_parts_of(self.latents, owners), _parts_of(self.inverse_scales, owners))
        for (name, parameter, row_steps), latent, inverse_scale in zip(parameters, *parts, strict=True):
            latent.copy_(parameter.detach())
            rows = int(latent.shape[0]) if row_steps and latent.dim() > 1 else 1
            spread = deviation(latent)
            first = _FIRST_STEP * spread if spread > 0 else _STEP_WITHOUT_SPREAD
            logs.append(torch.full((rows,), float(np.log(first)) / step_speed))
            self.entries.append(LatentTensor(name, parameter, rows, latent, inverse_scale))
        #: Logarithms of all step sizes over step_speed, and their moments. They are not parameters
        #: of the model's optimizer.
        self.log_steps = torch.cat(logs).to(device)
        self.first, self.second = (torch.zeros_like(self.log_steps) for _ in range(2))
        #: Step sizes as files store them.
        self.indices = torch.zeros_like(self.log_steps, dtype=torch.int64)
        self.steps = torch.zeros_like(self.log_steps)
        self.bits = 0.0  #: of all integers at the last count, with noise
        counts = torch.tensor([entry.rows for entry in self.entries])
        self._owner = torch.repeat_interleave(counts).to(device)
        ends = np.cumsum([entry.rows for entry in self.entries])
        self._rows = [slice(int(e - n.rows), int(e)) for e, n in zip(ends, self.entries, strict=True)]
        self._scratch: dict[int, Tensor] = {}
        self._slopes = self.log_steps.double()
        self.update_steps()

    def update_steps(self) -> None:
        """Step sizes from their logarithms."""
        self.indices.copy_(step_indices(self.log_steps * self.step_speed))
        self.steps.copy_(step_sizes(self.indices))

    def steps_of(self, index: int) -> Tensor:
        return self.steps[self._rows[index]]

    def indices_of(self, index: int) -> list[int]:
        return [int(k) for k in self.indices[self._rows[index]].tolist()]

    def _rounded(self, index: int) -> Tensor:
        """What the file holds of an entry, float32, of the latent's shape."""
        entry, steps = self.entries[index], self.steps_of(index)
        if entry.chosen is not None:
            integers = torch.from_numpy(entry.chosen).to(entry.latent.device, torch.float32)
            values = integers.reshape(entry.rows, -1) * steps.unsqueeze(1)
            return values.reshape(entry.latent.shape)
        values = torch.empty_like(entry.latent)
        round_to(entry.latent, steps, values)
        return values

    def _predict(self, index: int) -> None:
        entry = self.entries[index]
        if entry.chosen is None and entry.direct():
            round_to(entry.latent, self.steps_of(index), entry.parameter.data)
        else:
            entry.write(self._rounded(index))

    def changed(self) -> str | None:
        """Name of the first parameter that does not hold its rounded values.

        Raises:
            GbzError: NaN or infinity in a latent (``"non_finite"``).
        """
        for index, entry in enumerate(self.entries):
            if not bool(torch.isfinite(entry.latent).all()):
                raise GbzError(
                    f"{entry.name} holds NaN or infinity; lower the learning rate", "non_finite"
                )
            values = entry.parameter.data.to(entry.latent.device)
            if values.shape != entry.latent.shape or not torch.equal(
                values, self._rounded(index).to(values.dtype)
            ):
                return entry.name
        return None

    def predict(self) -> None:
        """Writes rounded values into the parameters."""
        for index in range(len(self.entries)):
            self._predict(index)

    def _with_rate(
        self, gradients: list[Tensor], weight: float, seed: int, step: int, count_bits: bool
    ) -> int:
        """add_rate() to contiguous float32 gradients. Returns a place in ``entries``, or -1."""
        slopes = []
        counted = torch.zeros((), dtype=torch.float64, device=self.steps.device)
        for i, (entry, gradient) in enumerate(zip(self.entries, gradients, strict=True)):
            key = _core.noise_key(seed, entry.name, step)
            bits, slope = rate(
                entry.latent, self.steps_of(i), entry.inverse_scale, weight, key, gradient
            )
            counted += bits.to(counted.device)
            slopes.append(slope)
        self._slopes = torch.cat(slopes)
        if count_bits:
            self.bits = float(counted)
        bad = ~torch.isfinite(self._slopes)
        return int(self._owner[bad.nonzero()[0, 0]]) if bool(bad.any()) else -1

    def add_rate(self, weight: float, seed: int, step: int, count_bits: bool) -> str | None:
        """Adds the rate's gradients to ``.grad``.

        Args:
            weight: loss per bit.
            seed: of the noise, as ``step``.
            count_bits: sets ``bits``.

        Returns:
            Name of the first parameter whose gradient is not finite, or None.
        """
        theirs = [entry.gradient() for entry in self.entries]
        ours = [
            g if g.dtype is torch.float32 and g.is_contiguous() else g.float().contiguous()
            for g in theirs
        ]
        bad = self._with_rate(ours, weight, seed, step, count_bits)
        for grad, gradient in zip(theirs, ours, strict=True):
            if grad is not gradient:
                grad.copy_(gradient)
        return self.entries[bad].name if bad >= 0 else None

    def _put(self, entry: LatentTensor) -> None:
        if entry.parameter.dtype != torch.float32:
            self._scratch[id(entry)] = entry.latent.to(entry.parameter.dtype).float()
        entry.write(entry.latent)

    def put(self) -> None:
        """Writes latents into the parameters, for the optimizer's step."""
        for entry in self.entries:
            self._put(entry)
            entry.chosen = None

    def _take(self, entry: LatentTensor) -> None:
        """Reads the latent back; of a parameter with fewer bits, the change."""
        before = self._scratch.pop(id(entry), None)
        if before is None:
            entry.latent.copy_(entry.parameter.data)
        else:
            entry.latent.add_(entry.parameter.data.float() - before)

    def take(self, rates: Sequence[float], updates: int) -> None:
        """Reads latents back after the optimizer's step, updates the step sizes and writes rounded values
        into the parameters. ``rates``: learning rates, one for each entry."""
        for entry in self.entries:
            self._take(entry)
        self._learn_steps(rates, updates)
        self.predict()

    def _learn_steps(self, rates: Sequence[float], updates: int) -> None:
        """One update of the logarithms by Adam."""
        gradient = (self._slopes * self.step_speed).to(self.first.dtype)
        self.first.lerp_(gradient, 1 - _BETA1)
        self.second.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        size = torch.tensor(rates, dtype=torch.float32, device=self._owner.device)[self._owner]
        root = self.second.sqrt() / (1 - _BETA2**updates) ** 0.5 + _EPS
        self.log_steps.sub_(size * (self.first / (1 - _BETA1**updates)) / root)
        self.update_steps()

    def expect(self, contexts: bool) -> None:
        """New scales from the present integers: the entropy model's for each element, or one per tensor."""
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
        """Multiplies all step sizes; scales are in units of them and are adapted."""
        self.log_steps.add_(float(np.log(factor)) / self.step_speed)
        self.update_steps()
        for entry in self.entries:
            entry.inverse_scale.mul_(factor).clamp_(1 / _LARGEST_SCALE, 1 / _LEAST_SCALE)

    def integers(self, index: int) -> NDArray[np.int32]:
        """The present integers: chosen ones, or the nearest."""
        entry = self.entries[index]
        if entry.chosen is not None:
            return entry.chosen
        return integers_of(entry.latent, self.steps_of(index))

    def state(self) -> dict[str, object]:
        """Everything that the next step depends on, as copies."""
        return {
            "log_steps": self.log_steps.clone(),
            "first": self.first.clone(),
            "second": self.second.clone(),
            "latents": {entry.name: entry.latent.clone() for entry in self.entries},
            "inverse_scales": {entry.name: entry.inverse_scale.clone() for entry in self.entries},
        }

    def restore(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Restores state(), which fits: check()."""
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
        """Raises ShapeMismatch where state() is of other parameters."""
        latents = state["latents"]
        for entry in self.entries:
            if entry.name not in latents or latents[entry.name].shape != entry.latent.shape:
                raise mismatch(f"the state is of another model: {entry.name} is missing or has another shape")
        if len(latents) != len(self.entries) or (
            state["log_steps"].shape != self.log_steps.shape  # type: ignore[attr-defined]
        ):
            raise mismatch("the state is of another model: it has other parameters or step sizes")


class CpuLatents(Latents):
    """The same on the CPU, where a step is three calls of the core for all tensors together: for small
    nets, operations of torch would take longer to start than to run."""

    def __init__(
        self, parameters: Sequence[tuple[str, torch.nn.Parameter, bool]], step_speed: float
    ) -> None:
        super().__init__(parameters, step_speed)
        self._stepper = _core.Stepper(
            [(entry.name, entry.numbers, entry.rows) for entry in self.entries],
            array_of(self.latents),
            array_of(self.inverse_scales),
            array_of(self.log_steps),
            array_of(self.first),
            array_of(self.second),
            array_of(self.indices),
            array_of(self.steps),
            step_speed,
        )

    def _addresses(self) -> list[int]:
        """Addresses of parameters that the core writes directly; 0 for others."""
        return [entry.parameter.data_ptr() if entry.direct() else 0 for entry in self.entries]

    def _with_rate(
        self, gradients: list[Tensor], weight: float, seed: int, step: int, count_bits: bool
    ) -> int:
        where = [gradient.data_ptr() for gradient in gradients]
        threads = torch.get_num_threads()
        bad = self._stepper.add_rate(where, weight, seed, step, count_bits, threads)
        self.bits = self._stepper.bits
        return bad

    def put(self) -> None:
        where = self._addresses()
        self._stepper.put(where, torch.get_num_threads())
        for entry, address in zip(self.entries, where, strict=True):
            entry.chosen = None
            if address == 0:
                self._put(entry)

    def take(self, rates: Sequence[float], updates: int) -> None:
        where = self._addresses()
        others = [i for i, address in enumerate(where) if address == 0]
        for index in others:
            self._take(self.entries[index])
        self._stepper.take(where, rates, updates, torch.get_num_threads())
        for index in others:
            self._predict(index)
