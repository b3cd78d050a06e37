"""The extension module; see src/core."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__version__: str

class File:
    def __init__(
        self,
        path: str,
        max_output: int | None = None,
        bases: Sequence[str] = (),
        check: Literal["at_once", "decoding", "never"] = "at_once",
        draft: bool = False,
    ) -> None: ...
    @property
    def arch(self) -> str: ...
    @property
    def settings(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def draft_bytes(self) -> int: ...
    @property
    def is_draft(self) -> bool: ...
    @property
    def output_bytes(self) -> int: ...
    @property
    def profile(self) -> str: ...
    def tensors(self) -> list[dict[str, Any]]: ...
    @property
    def bases(self) -> list[str]: ...
    def check_readable(self) -> None: ...
    def check_digest(self) -> None: ...
    def read(
        self, wanted: Sequence[tuple[int, str]], threads: int = 0
    ) -> list[NDArray[np.uint8] | NDArray[np.float32]]: ...
    def read_into(
        self, wanted: list[tuple[int, str, NDArray[np.uint8]]], threads: int = 0
    ) -> None: ...
    def read_rows(
        self, index: int, dtype: str, first: int, count: int, threads: int = 0
    ) -> NDArray[np.uint8]: ...
    def coded(
        self, index: int
    ) -> tuple[NDArray[np.int32], int, NDArray[np.int32], int, bool]: ...
    def tensor_bits(self) -> list[float]: ...

class Stepper:
    def __init__(
        self,
        tensors: list[tuple[str, int, int]],
        latent: NDArray[np.float32],
        inverse_scale: NDArray[np.float32],
        log_steps: NDArray[np.float32],
        first: NDArray[np.float32],
        second: NDArray[np.float32],
        indices: NDArray[np.int64],
        steps: NDArray[np.float32],
        speed: float,
        /,
    ) -> None: ...
    def add_rate(
        self,
        gradients: list[int],
        weight: float,
        seed: int,
        step: int,
        count_bits: bool,
        threads: int,
        /,
    ) -> int: ...
    def put(self, parameters: list[int], threads: int, /) -> None: ...
    def take(
        self, parameters: list[int], rates: Sequence[float], updates: int, threads: int, /
    ) -> None: ...
    @property
    def bits(self) -> float: ...
    @property
    def slopes(self) -> list[float]: ...

class Writer:
    def __init__(self, settings: str) -> None: ...
    def add_coded(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        integers: NDArray[np.int32],
        step: int,
        row_steps: Sequence[int],
    ) -> None: ...
    def add_short_floats(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        numbers: NDArray[np.float32],
        mantissa_bits: int,
    ) -> bool: ...
    def add_plain(
        self, name: str, dtype: str, shape: Sequence[int], data: NDArray[np.uint8]
    ) -> None: ...
    def add_generated(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        plan: GNetPlan,
        coding: str,
        theta: NDArray[np.float32],
    ) -> NDArray[np.float32]: ...
    def add_constant(
        self, name: str, dtype: str, shape: Sequence[int], element: NDArray[np.uint8]
    ) -> None: ...
    def add_tied(self, name: str, to: str) -> None: ...
    def size(self) -> int: ...
    def tensor_bits(self) -> list[float]: ...
    def write(self, path: str, overwrite: bool) -> int: ...

def save(
    tensors: list[tuple[str, str, tuple[int, ...], NDArray[np.uint8]]] | str,
    path: str,
    *,
    ratio: float | None,
    max_bytes: int | None,
    max_error: float | None,
    exact: list[str],
    base: str | None,
    statistics: list[tuple[str, str, tuple[int, ...], NDArray[np.uint8]]] | None,
    use: dict[str, float],
    metadata: str,
    overwrite: bool,
    threads: int,
    lanes: bool = False,
) -> dict[str, Any]: ...
def is_onnx(path: str) -> bool: ...
def onnx_bytes(path: str) -> int: ...
def onnx_graph(path: str) -> list[dict[str, Any]]: ...
def expand_container(path: str, output: str, overwrite: bool, threads: int) -> int: ...
def list_tensors(path: str) -> list[tuple[str, str, tuple[int, ...]]]: ...
def carry(
    source: str, folder: str, overwrite: bool, write: Callable[[], Any] | None = None, artifact: str = ""
) -> Any: ...
def read_tensors(path: str) -> list[tuple[str, str, tuple[int, ...], NDArray[np.uint8]]]: ...
def read_model(path: str) -> list[tuple[str, str, tuple[int, ...], NDArray[np.uint8]]]: ...
def save_link(
    tensors: list[tuple[str, str, tuple[int, ...], NDArray[np.uint8]]],
    before: list[tuple[str, str, tuple[int, ...], NDArray[np.uint8]]] | None,
    path: str,
    overwrite: bool,
) -> dict[str, Any]: ...
def pack_frame(frame: NDArray[np.uint8]) -> tuple[int, int, NDArray[np.uint8]]: ...
def unpack_frame(
    stored: NDArray[np.uint8], packing: int, raw_bytes: int, element_bytes: int, label: str
) -> NDArray[np.uint8]: ...
def artifact_in(path: str) -> str: ...
def original_size(tensors: Sequence[tuple[str, str, Sequence[int], int]]) -> tuple[int, int]: ...
def weights_name(folder: str) -> str: ...
def component_folders(folder: str) -> list[str]: ...
def check_writable(path: str, overwrite: bool) -> None: ...
def join(
    files: Sequence[str],
    path: str,
    settings: str,
    overwrite: bool,
    replaced: Sequence[tuple[str, NDArray[np.float32]]] = (),
    mantissa_bits: int = 0,
) -> int: ...
def short_floats(
    shape: Sequence[int], numbers: NDArray[np.float32], mantissa_bits: int
) -> NDArray[np.float32]: ...
def matches_glob(pattern: str, text: str) -> bool: ...
def laplace_rate(
    latent: NDArray[np.float32],
    steps: NDArray[np.float32],
    inverse_scale: NDArray[np.float32],
    weight: float,
    key: int,
    gradient: NDArray[np.float32],
    threads: int = 0,
) -> tuple[float, list[float]]: ...
def round_to_step(
    latent: NDArray[np.float32],
    steps: NDArray[np.float32],
    rounded: NDArray[np.float32],
    threads: int = 0,
) -> None: ...
def expected_scales(
    shape: Sequence[int], integers: NDArray[np.int32]
) -> NDArray[np.float32]: ...
def choose(
    shapes: Sequence[Sequence[int]], scaled: list[NDArray[np.float32]], rate_weight: float
) -> list[NDArray[np.int32]]: ...
class Calibration:
    def __init__(
        self,
        source: Sequence[Any] | str,
        statistics: Sequence[Any],
        evaluator: object,
        folder: str,
        exact: Sequence[str],
        threads: int,
    ) -> None: ...
    @property
    def input_bytes(self) -> int: ...
    def best(self, bytes: int) -> dict[str, Any]: ...

class BracketSearch:
    @staticmethod
    def make(
        logarithmic: bool = False,
        first: float = 0.0,
        holds: float | None = None,
        fails: float | None = None,
        cuts: int = ...,
        resolution: float = 0.0,
        stride: float = 2.0,
        limit: float = ...,
    ) -> BracketSearch: ...
    def next(self) -> float | None: ...
    def tried(self, x: float, holds: bool) -> None: ...
    @property
    def holds(self) -> float | None: ...

class ParameterInfo:
    """A parameter, as ``init`` of a layer type gets it.

    ``name`` is its full name, ``local_name`` that inside its module, ``module_path`` the module's, ``module_type``
    the name of the module's class; ``shape`` its sizes, ``std`` the standard deviation (n - 1) of its initial values.
    """

    def __init__(
        self,
        name: str,
        local_name: str,
        module_path: str,
        module_type: str,
        shape: Sequence[int],
        std: float,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def local_name(self) -> str: ...
    @property
    def module_path(self) -> str: ...
    @property
    def module_type(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def std(self) -> float: ...

class GNetOptions:
    """Options of g-nets, as ``init`` of a layer type gets them; ``make_plan`` applies them.

    ``tile_weights`` is the number of weights of a tile, ``ratio`` the weights per g-net parameter that replace it,
    ``hidden`` the widths of hidden layers, ``rank`` that of products of matrices.
    """

    @staticmethod
    def make(
        tile_weights: int,
        ratio: float | None,
        hidden: Sequence[int],
        generator: str,
        rank: int,
        row_code: str | None,
        col_code: str | None,
    ) -> GNetOptions: ...
    @property
    def tile_weights(self) -> int: ...
    @property
    def ratio(self) -> float | None: ...
    @property
    def hidden(self) -> list[int]: ...
    @property
    def generator(self) -> str: ...
    @property
    def rank(self) -> int: ...

class GNetRecipe:
    @property
    def gnet(self) -> GNetOptions: ...
    @property
    def lr(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def schedule(self) -> str: ...
    @property
    def code_plain(self) -> bool: ...

class PlannedTensor:
    def __init__(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        tied_to: str,
        code_plain: bool,
        values: NDArray[np.uint8],
        plan: Callable[[GNetOptions], GNetPlan | None] | None,
    ) -> None: ...

PLAIN_MANTISSA_BITS: int

def gnet_recipe(given: GNetOptions, chooses: bool, target_ratio: float) -> GNetRecipe: ...
def gnets_for_ratio(
    tensors: Sequence[PlannedTensor], gnet: GNetOptions, coding: str, ratio: float
) -> tuple[GNetOptions, int, bool]: ...

class GNetPlan:
    """How g-nets generate a parameter; made by ``make_plan``.

    ``shape`` is what the tiles form together, ``tile_rows`` x ``tile_cols`` x ``kernel`` a tile, ``tiles`` their
    number; ``parameters`` and ``elements`` count those of all g-nets and weights. ``output_scale`` multiplies the output
    of a g-net. ``text`` describes one: ``"14-32-1"``.
    """

    type_id: str
    @property
    def shape(self) -> list[int]: ...
    @property
    def tile_rows(self) -> int: ...
    @property
    def tile_cols(self) -> int: ...
    @property
    def kernel(self) -> int: ...
    @property
    def hidden(self) -> list[int]: ...
    @property
    def rank(self) -> int: ...
    @property
    def output_scale(self) -> float: ...
    @property
    def tiles(self) -> int: ...
    @property
    def elements(self) -> int: ...
    @property
    def parameters(self) -> int: ...
    @property
    def generator(self) -> str: ...
    @property
    def text(self) -> str: ...
    def same_but_scale(self, other: GNetPlan) -> bool: ...

class GnetLayer:
    def __init__(
        self,
        plan: GNetPlan,
        name: str,
        seed: int,
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
    ) -> None: ...
    @property
    def plan(self) -> GNetPlan: ...
    @property
    def steps(self) -> int: ...
    def floats(self, tiles: bool) -> int: ...
    def theta(self) -> NDArray[np.float32]: ...
    def gradient(self) -> NDArray[np.float32]: ...
    def zero_grad(self) -> None: ...
    def predict(
        self, address: int, floats: int, tiles: bool, noise: int | None, kernel: str, threads: int
    ) -> None: ...
    def backward(
        self, address: int, floats: int, tiles: bool, factor: float, kernel: str, threads: int
    ) -> None: ...
    def step(self, lr_factor: float, threads: int) -> None: ...
    def restore(self, theta: NDArray[np.float32], output_scale: float) -> None: ...

def type_of_module(module: str) -> str: ...
def plan_by_type(type: str, parameter: ParameterInfo, options: GNetOptions) -> GNetPlan | None: ...
def plan_of_view(
    parameter: ParameterInfo,
    options: GNetOptions,
    row_dim: int,
    col_dim: int,
    row_splits: int,
    col_splits: int,
    shape: Sequence[int] | None,
) -> GNetPlan: ...
def deviation(values: NDArray[np.float64]) -> float: ...
def owners_of(plans: Sequence[GNetPlan], world: int) -> list[int]: ...
def schedule_factor(schedule: str, step: int, total: int) -> float: ...
def read_gnet_file(path: str) -> list[dict[str, Any]]: ...
def step_size(index: int) -> float: ...
def nearest_step(size: float) -> int: ...
def noise_key(seed: int, name: str, step: int) -> int: ...
