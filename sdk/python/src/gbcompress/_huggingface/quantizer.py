"""The quantizer that Transformers knows packed folders by, and its configuration."""

from __future__ import annotations

import os
from typing import Any

import transformers
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from .._errors import usage
from .._files.save import _one_target
from .loading import Loading, LoadingSlice, on_cpu, take_resolved
from .registration import METHOD


class GbcompressConfig(QuantizationConfigMixin):  # type: ignore[misc]  # transformers may be absent
    """How ``model.save_pretrained()`` compresses weights that are not those of a packed folder.

        model = AutoModel.from_pretrained("plain/", quantization_config=GbcompressConfig(ratio=8))
        model.save_pretrained("packed/")

    Weights in memory are not changed. Without a target, weights that changed since they were loaded are
    compressed as much as the file they came from, and bit for bit if it holds every bit; weights of other
    folders to an eighth.

    Args:
        ratio: bytes of the weights over bytes of the file, above 1.
        max_bytes: of the file.
        max_error: squared error of every tensor over its squares.
        lossless: every tensor bit for bit.
        keep: ``"compressed"`` or ``"integers"``, as of keep_compressed(), or None to decode all weights when they are loaded. It is no part of a saved configuration.
        others: members that a later version may have written; they are ignored.

    Raises:
        UsageError: two targets, or one out of its range; another ``keep``, or any with Transformers 4; in
            from_pretrained(), ``keep`` of a folder that is not packed.
    """

    def __init__(
        self,
        ratio: float | None = None,
        max_bytes: int | None = None,
        max_error: float | None = None,
        lossless: bool = False,
        keep: str | None = None,
        **others: Any,
    ) -> None:
        self.quant_method = METHOD
        self.ratio, self.max_bytes, self.max_error, self.lossless = ratio, max_bytes, max_error, lossless
        if self.target():
            _one_target(ratio, max_bytes, max_error, lossless)
        self.keep: str | None = None
        if keep is not None:
            from .._keep.keep import checked_keep

            if int(transformers.__version__.split(".")[0]) < 5:  # which uses the configuration of the folder alone
                raise usage(
                    f"keep={keep!r} needs Transformers 5, got {transformers.__version__}; load the model without it and call "
                    "gbcompress.keep_compressed()"
                )
            self.keep = checked_keep(keep)

    def target(self) -> dict[str, Any]:
        """Arguments of compress_folder(); empty without a target."""
        names = ("ratio", "max_bytes", "max_error", "lossless")
        values = ((name, getattr(self, name)) for name in names)
        return {name: value for name, value in values if value is not None and value is not False}

    def to_dict(self) -> dict[str, Any]:
        """The method, and a target if there is one."""
        return {"quant_method": METHOD, **self.target()}

    def get_loading_attributes(self) -> dict[str, Any]:
        """What from_pretrained() takes from its argument where the folder has a configuration too."""
        return self.target() if self.keep is None else {**self.target(), "keep": self.keep}


class GbcompressQuantizer(HfQuantizer):  # type: ignore[misc]
    """Tells Transformers that the weights of a packed folder are complete once they are decoded."""

    requires_calibration = False
    #: Where this version of Transformers cannot open packed folders: the reason.
    unsupported = ""

    def __init__(self, quantization_config: GbcompressConfig, **kwargs: Any) -> None:
        super().__init__(quantization_config, **kwargs)
        self.pre_quantized = True  # nothing is quantized while it is loaded
        self.source: str | None = None  #: the .gbz that the weights were decoded from
        self.loading: Loading | None = None  #: that file, while the model is loaded
        self._device_map: object = None

    def validate_environment(self, *args: Any, **kwargs: Any) -> None:
        if self.unsupported:
            raise ImportError(self.unsupported)

    @property
    def keep(self) -> str | None:
        """How the weights are kept in memory; None: decoded."""
        return getattr(self.quantization_config, "keep", None)

    def update_device_map(self, device_map: Any) -> Any:
        self._device_map = device_map
        return device_map

    def update_dtype(self, dtype: Any) -> Any:
        """Called when the file is known and before the model is made: decoding begins."""
        loading = take_resolved()
        if loading is not None and self.keep is None:
            self.loading = loading
            if on_cpu(self._device_map):
                loading.begin(dtype if hasattr(HfQuantizer, "get_new_dtype") else None)
        return dtype

    def get_new_dtype(self, converter: Any, param: Any, dtype: Any) -> Any:
        """Tells a tensor what the loader converts it to."""
        wanted = super().get_new_dtype(converter, param, dtype)
        if isinstance(param, LoadingSlice):
            param.wanted = wanted
        return wanted

    def _process_model_before_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        files = kwargs.get("checkpoint_files") or [""]
        if self.keep is not None and not str(files[0]).endswith(".gbz"):
            raise usage(f"keep={self.keep!r} needs a packed folder; compress it first: gbcompress.compress_folder()")
        return model

    def _process_model_after_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        """The modules are the model's own, so it is trained, cast and moved like any other."""
        model.is_quantized = False
        self.loading = None
        if artifact_named(vars(model.config).get("transformers_weights")):
            del model.config.transformers_weights
        if self.keep is not None:
            from .._keep.keep import release_others

            release_others(model)
        return model

    def _dequantize(self, model: Any, dtype: Any = None) -> Any:
        """Weights that were kept compressed are decoded."""
        if self.keep is not None:
            from .._keep.keep import release

            release(model)
        return model

    def is_serializable(self, *args: Any, **kwargs: Any) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return True

    @property
    def is_qat_trainable(self) -> bool:
        return True

    @property
    def is_compileable(self) -> bool:
        return True


def artifact_named(value: object) -> str | None:
    """The ``.gbz`` of a member ``transformers_weights``, behind whose name a hint may stand; else None.

    Raises:
        UsageError: a file outside of the folder.
    """
    if not isinstance(value, str) or ".gbz" not in value:
        return None
    name = value[: value.rindex(".gbz") + 4]
    if os.path.basename(name) != name:
        raise usage(f"transformers_weights in config.json must name a file of its folder, got {name!r}")
    return name
