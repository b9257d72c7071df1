"""What references of reference-kernels call of the package `aiter`, which is for AMD's GPUs: as it is defined.

Covers: blocks of 32 4-bit floats with a power of two each, their products, attention of one query a sequence, and the
orders in which `aiter` wants weights and scales, since kernels are given those.
Does not cover: mixtures of experts (`fused_moe`), whose rounding between its two products is not written down.
"""

import ast
import re
from collections.abc import Iterator

from ..errors import TaskError

MODULE = "kw_aiter.py"
_IMPORTS = (
    (re.compile(r"^import aiter$", re.MULTILINE), "import kw_aiter as aiter"),
    (re.compile(r"^(\s*)from aiter\.utility import fp4_utils$", re.MULTILINE), r"\1import kw_aiter as fp4_utils"),
    (re.compile(r"^(\s*)from aiter(?:\.[\w.]+)? import (?=[\w(])", re.MULTILINE), r"\1from kw_aiter import "),
)  # fmt: skip
DEFINED = '''
import types

import torch

dtypes = types.SimpleNamespace(
    fp4x2=torch.float4_e2m1fn_x2, fp8_e8m0=torch.float8_e8m0fnu, fp8=torch.float8_e4m3fn,
    bf16=torch.bfloat16, fp32=torch.float32,
)
QuantType = types.SimpleNamespace(per_1x32="per_1x32")
BLOCK = 32
HALVES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def dynamic_mxfp4_quant(x):
    """Return 4-bit floats, two in a byte, the first in its lower half, and the power of two of each block of 32.

    Source: OCP Microscaling Formats (MX) Specification 1.0, 5.2 and 6.3; a block's greatest number is rounded to
    one digit first, ties to even, as `aiter` has it by default.
    """
    rows, columns = x.shape
    blocks = x.float().reshape(rows, columns // BLOCK, BLOCK)
    greatest = blocks.abs().amax(-1)
    rounded = ((greatest.view(torch.int32) + 0x200000) >> 23) & 0xFF
    biased = (rounded - 2).clamp(0, 254)
    scaled = blocks * torch.exp2((127 - biased).float()).unsqueeze(-1)
    a = scaled.abs()
    code = (a > 0.25).byte() + (a >= 0.75) + (a > 1.25) + (a >= 1.75) + (a > 2.5) + (a >= 3.5) + (a > 5.0)
    code = (code.byte() + 8 * torch.signbit(scaled).byte()).reshape(rows, columns // 2, 2)
    return (code[..., 0] + 16 * code[..., 1]).view(dtypes.fp4x2), biased.byte().view(dtypes.fp8_e8m0)


def mxfp4_to_f32(packed):
    both = packed.view(torch.uint8).long()
    table = torch.tensor(HALVES + [-v for v in HALVES], device=packed.device)
    return table[torch.stack((both & 15, both >> 4), -1).flatten(-2)]


def e8m0_to_f32(scales):
    return torch.exp2(scales.view(torch.uint8).float() - 127)


def _scales_padded(scales):
    raw = scales.view(torch.uint8)
    rows, columns = -(-raw.shape[0] // 256) * 256, -(-raw.shape[1] // 8) * 8
    return torch.nn.functional.pad(raw, (0, columns - raw.shape[1], 0, rows - raw.shape[0]))


def e8m0_shuffle(scales):
    """Return scales filled up to 256 rows and 8 columns, in tiles of 2 times 16 rows and 2 times 4 columns."""
    raw = _scales_padded(scales)
    rows, columns = raw.shape
    tiles = raw.reshape(rows // 32, 2, 16, columns // 8, 2, 4).permute(0, 3, 5, 2, 4, 1)
    return tiles.reshape(rows, columns).view(scales.dtype)


def _scales_in_order(shuffled):
    raw = shuffled.view(torch.uint8)
    rows, columns = raw.shape
    tiles = raw.reshape(rows // 32, columns // 8, 4, 16, 2, 2).permute(0, 5, 3, 1, 4, 2)
    return tiles.reshape(rows, columns)


def shuffle_weight(packed, layout=(16, 16)):
    """Return bytes in tiles of `layout` rows and twice as many columns, 16 columns of all rows after another."""
    raw, (rows, half) = packed.view(torch.uint8), layout
    tiles = raw.reshape(-1, raw.shape[-2] // rows, rows, raw.shape[-1] // (2 * half), 2 * half // 16, 16)
    return tiles.permute(0, 1, 3, 4, 2, 5).reshape(raw.shape).view(packed.dtype)


def _weight_in_order(shuffled):
    raw = shuffled.view(torch.uint8)
    rows, columns = raw.shape
    tiles = raw.reshape(rows // 16, columns // 32, 2, 16, 16).permute(0, 3, 1, 2, 4)
    return tiles.reshape(rows, columns)


def _values(packed, scales):
    values = mxfp4_to_f32(packed)
    rows, columns = values.shape
    factors = e8m0_to_f32(scales)[:rows, : columns // BLOCK]
    return values * factors.repeat_interleave(BLOCK, 1)


def gemm_a4w4(a, b, a_scales, b_scales, bias=None, dtype=torch.bfloat16, bpreshuffle=True):
    """Return a times b, transposed: `b` and all scales in the orders above."""
    weight = _weight_in_order(b) if bpreshuffle else b.view(torch.uint8)
    found = _values(a, _scales_in_order(a_scales)) @ _values(weight, _scales_in_order(b_scales)).t()
    return (found if bias is None else found + bias).to(dtype)


def get_mla_metadata_info_v1(*sizes, **more):
    return [((1,), torch.int32)] * 6


def get_mla_metadata_v1(*given, **more):
    """Do nothing: how work is shared out changes no result."""


def mla_decode_fwd(
    q, kv, out, qo_indptr, kv_indptr, kv_indices, last_page, most, sm_scale=1.0, q_scale=None, kv_scale=None, **more
):
    """Write the attention of all sequences of one length: keys are whole entries, values their first part."""
    sequences, sizes = qo_indptr.shape[0] - 1, kv.shape[-1]
    queries = q.float().reshape(sequences, -1, q.shape[-2], sizes) * (1 if q_scale is None else q_scale)
    entries = kv.float().reshape(sequences, -1, sizes) * (1 if kv_scale is None else kv_scale)
    shares = torch.einsum("bqhd,bkd->bqhk", queries, entries).mul(sm_scale).softmax(-1)
    found = torch.einsum("bqhk,bkd->bqhd", shares, entries[..., : out.shape[-1]])
    out.copy_(found.reshape(out.shape))
'''
"""The module that takes the package's place."""


def defined(texts: dict[str, str]) -> dict[str, str]:
    """Return files that call `aiter` as it is defined; those that do not, as they are.

    Raises:
        TaskError: they call what is not defined here.

    Example:
        >>> files = {"reference.py": "from aiter.ops.shuffle import shuffle_weight\\nimport aiter\\n"}
        >>> print(defined(files)["reference.py"])
        from kw_aiter import shuffle_weight
        import kw_aiter as aiter
        <BLANKLINE>
    """
    made = dict(texts)
    for name in texts:
        for pattern, instead in _IMPORTS:
            made[name] = pattern.sub(instead, made[name])
    if made == texts:
        return made
    used = {name for file, text in made.items() if file.endswith(".py") for name in _used(ast.parse(text))}
    missing = sorted(n for n in used if not re.search(rf"^(?:def )?{n}\b", DEFINED, re.MULTILINE))
    if missing:
        raise TaskError(
            f"its reference needs `aiter`, for AMD's GPUs: {', '.join(missing)} is not defined here"
        )
    return made | {MODULE: DEFINED}


def _used(tree: ast.Module) -> Iterator[str]:
    """Yield what a file takes of the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "kw_aiter":
            yield from (one.name for one in node.names)
        elif (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "aiter"
        ):
            yield node.attr
