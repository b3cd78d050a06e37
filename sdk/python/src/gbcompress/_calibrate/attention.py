"""Inputs that the matrices of torch.nn.MultiheadAttention see."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

#: Arguments of MultiheadAttention.forward, in order.
_ARGUMENTS = (
    "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights", "is_causal",
)  # fmt: skip


def arguments_of(args: Any, kwargs: Any) -> dict[str, Any] | None:
    """By name; None where query, key and value are no tensors, which the module itself refuses."""
    given = {**dict(zip(_ARGUMENTS, args, strict=False)), **kwargs}
    three = [given.get(name) for name in _ARGUMENTS[:3]]
    return given if all(isinstance(each, torch.Tensor) for each in three) else None


def _of_type(mask: torch.Tensor | None, kind: torch.dtype) -> torch.Tensor | None:
    return mask.to(kind) if mask is not None and mask.is_floating_point() else mask


def mixed_values(module: torch.nn.MultiheadAttention, given: dict[str, Any]) -> torch.Tensor:
    """Values that attention mixes, all heads side by side [..., embed_dim]: the inputs of out_proj."""
    kind = module.out_proj.weight
    query, key, value = (given[name].detach().to(kind.dtype) for name in _ARGUMENTS[:3])
    if module.batch_first and query.ndim == 3:
        query, key, value = (each.transpose(0, 1) for each in (query, key, value))
    padding, mask = (_of_type(given.get(name), kind.dtype) for name in ("key_padding_mask", "attn_mask"))
    mixed, _ = functional.multi_head_attention_forward(
        query, key, value, module.embed_dim, module.num_heads, module.in_proj_weight, module.in_proj_bias,
        module.bias_k, module.bias_v, module.add_zero_attn, 0.0,
        torch.eye(module.embed_dim, dtype=kind.dtype, device=kind.device), None, training=False,
        need_weights=False, use_separate_proj_weight=not module._qkv_same_embed_dim,
        q_proj_weight=module.q_proj_weight, k_proj_weight=module.k_proj_weight,
        v_proj_weight=module.v_proj_weight, key_padding_mask=padding, attn_mask=mask,
    )  # fmt: skip
    return mixed
