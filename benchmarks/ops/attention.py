"""Attention against torch's: scaled_dot_product_attention, the same with a mask tensor, FlexAttention compiled.

    python -m benchmarks.ops.attention [--only mask] [--threads 1] [--rounds 7] [--out rows.jsonl]

Ops: `dense`, `causal` and their gradients, `decode`, `mask NAME` and `flex NAME` for the masks of long contexts.
Forward in float32 is held to oneDNN by way of OpenVINO too, where that is installed (`pip install openvino`).
FlexAttention skips the blocks that a mask leaves empty, and reads the mask's table in blocks that it fills in part; so
one compilation serves all masks for a size of blocks, of which there are two. Keys that are paged or int8 are gathered
and widened for torch, which reads neither.
"""

import importlib.util
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

from benchmarks.ops._turns import Call, Case, backward, main
from kernelwright.ops.attention import attention, decode, masks, quantize

torch._functorch.config.donated_buffer = False  # a backward that is timed runs many times on one graph
torch._dynamo.config.recompile_limit = 64
SIZES = (
    (1, 8, 512, 64),
    (1, 8, 1024, 64),
    (1, 8, 1024, 128),
    (1, 2, 4096, 64),
    (1, 8, 1024, 32),
    (1, 4, 1024, 256),
)
"""Batch, heads, rows and keys, columns."""
ROWS, WINDOW = 2048, 128
LENGTHS = (512, 256, 640, 128, 512)
CACHES = (
    (1, 8, 8, 4096, 128),
    (1, 32, 8, 4096, 128),
    (4, 16, 4, 2048, 64),
    (8, 32, 8, 1024, 128),
    (4, 16, 16, 2048, 64),
)
"""Batch, heads, kv heads, keys, columns."""
T = torch.Tensor


def specs() -> dict[str, masks.Mask]:
    """Make the masks: 12 that are static, and blocks at random."""
    drawn = torch.rand(32, 32, generator=torch.Generator().manual_seed(0))
    sparse = (drawn < 0.2) | torch.eye(32, dtype=torch.bool)
    sizes = tuple(32 + 64 * (i % 2) for i in range(32))
    return {
        "full": masks.Full(), "causal": masks.Causal(), "document": masks.Document(LENGTHS),
        "causal document": masks.Document(LENGTHS, causal=True), "window": masks.SlidingWindow(WINDOW),
        "causal window": masks.SlidingWindow(WINDOW, causal=True), "global window": masks.GlobalSlidingWindow(WINDOW),
        "prefix": masks.PrefixLM(512), "prefix document": masks.PrefixLMDocument(LENGTHS, 64),
        "shared question": masks.ShareQuestion(LENGTHS), "causal blockwise": masks.CausalBlockwise(LENGTHS),
        "block causal document": masks.BlockCausalDocument(LENGTHS, 64),
        "block sparse": masks.BlockSparse(sparse, 64, 64),
        "variable block sparse": masks.BlockSparse(sparse, sizes, sizes),
    }  # fmt: skip


def of_masks(only: str) -> Iterator[Case]:
    """Make the cases of masks, against torch's own with the mask as a tensor, and against FlexAttention."""
    q, k, v = (torch.randn(1, 8, ROWS, 64) for _ in range(3))
    size, flex = f"1x8x{ROWS}x64", torch.compile(flex_attention)
    for name, spec in specs().items():
        table = spec.allowed(ROWS, ROWS)
        forms: dict[str, Call] = {"kernel": partial(attention, q, k, v, spec)}
        if only in f"mask {name}":
            own = {"sdpa with mask": partial(sdpa, q, k, v, attn_mask=table)}
            if name in ("full", "causal"):
                own["sdpa"] = partial(sdpa, q, k, v, is_causal=name == "causal")
            yield Case(f"mask {name}", size, "float32", forms | own, 1e-4)
        if only in f"flex {name}":
            flexes: dict[str, Call] = {}
            for block in (128, 64):
                blocks = create_block_mask(
                    lambda _b, _h, i, j: table[i, j],  # noqa: B023  (called at once)
                    None, None, ROWS, ROWS, device="cpu", BLOCK_SIZE=block,
                )  # fmt: skip
                flexes[f"flex {block}"] = partial(flex, q, k, v, block_mask=blocks)
            yield Case(f"flex {name}", size, "float32", forms | flexes, 1e-4)


def of_caches() -> Iterator[Case]:
    """Make the cases of decode: as a model keeps its cache, in pages, in int8; of groups, against plain ones."""
    for batch, heads, groups, keys, columns in CACHES:
        q = torch.randn(batch, heads, columns)
        k, v = (torch.randn(batch, groups, keys, columns) for _ in range(2))
        lengths = torch.full((batch,), keys, dtype=torch.int32)
        call = partial(sdpa, enable_gqa=heads != groups)
        size = "x".join(map(str, (batch, heads, groups, keys, columns)))

        def torchs(k: T, v: T, q: T = q, call: Call = call) -> T:
            return call(q[:, :, None], k, v)[:, :, 0]

        yield Case("decode", size, "float32", {
            "kernel": partial(decode, q, k.transpose(1, 2), v.transpose(1, 2), lengths), "sdpa": partial(torchs, k, v),
        })  # fmt: skip
        order = torch.randperm(batch * keys // 64)
        pages = [t.transpose(1, 2).reshape(-1, 64, groups, columns)[order] for t in (k, v)]
        table = order.argsort().int().view(batch, -1)

        def gathered(cache: T, table: T = table, shape: torch.Size = k.shape) -> T:
            return cache[table.long()].flatten(1, 2).transpose(1, 2).reshape(shape)

        yield Case("decode paged", size, "float32", {
            "kernel": partial(decode, q, *pages, lengths, pages=table),
            "sdpa": lambda torchs=torchs, gathered=gathered, pages=pages: torchs(*map(gathered, pages)),
        })  # fmt: skip
        (k8, ks), (v8, vs) = (quantize(t.transpose(1, 2).contiguous()) for t in (k, v))

        def widened(codes: T, scales: T) -> T:
            return (codes * scales[..., None]).transpose(1, 2)

        yield Case("decode int8", size, "float32", {
            "kernel": partial(decode, q, k8, v8, lengths, k_scales=ks, v_scales=vs),
            "sdpa": lambda torchs=torchs, a=(k8, ks), b=(v8, vs): torchs(widened(*a), widened(*b)),
        })  # fmt: skip
        plain = [t.transpose(1, 2).contiguous() for t in (k, v)]
        for bits in (8, 4):
            (kc, ks), (vc, vs) = (quantize(t, bits, 32) for t in plain)
            yield Case(f"decode int{bits} groups", size, "float32", {
                "kernel": partial(decode, q, kc, vc, lengths, k_scales=ks, v_scales=vs),
                **{str(dtype)[6:]: partial(decode, q.to(dtype), *(t.to(dtype) for t in plain), lengths)
                   for dtype in (torch.float32, torch.bfloat16)},
            }, 0.5 if bits == 4 else 0.1)  # fmt: skip


def openvino(q: T, k: T, v: T, *, causal: bool) -> Call:
    """OpenVINO's attention of these tensors, in float32 on as many threads as torch has."""
    import openvino as ov
    from openvino import opset13 as op

    given = [op.parameter(list(t.shape), ov.Type.f32) for t in (q, k, v)]
    model = ov.Model([op.scaled_dot_product_attention(*given, causal=causal)], given)
    config = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(), "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32",
    }  # fmt: skip
    request = ov.Core().compile_model(model, "CPU", config).create_infer_request()
    for i, t in enumerate((q, k, v)):
        request.set_input_tensor(i, ov.Tensor(t.numpy(), shared_memory=True))
    return partial(_inferred, request, (q, k, v))


def _inferred(request: Any, read: tuple[T, T, T]) -> T:
    """Run a request that reads these tensors where they lie, so that they must be kept as long as it is."""
    del read
    request.infer()
    return torch.from_numpy(request.get_output_tensor().data)


def of_sizes(only: str, dtype: torch.dtype) -> Iterator[Case]:
    """Make the cases of all keys and of causal ones, forward and backward."""
    tolerance = 1e-4 if dtype is torch.float32 else 3e-2
    for op, mask in (("dense", None), ("causal", masks.Causal())):
        for size in SIZES:
            q, k, v = (torch.randn(size).to(dtype) for _ in range(3))
            forms = {
                "kernel": partial(attention, mask=mask),
                "sdpa": partial(sdpa, is_causal=mask is not None),
            }
            words = "x".join(map(str, size)), str(dtype).removeprefix("torch.")
            if only in op:
                called: dict[str, Call] = {n: partial(form, q, k, v) for n, form in forms.items()}
                peer = dtype is torch.float32 and importlib.util.find_spec("openvino") is not None
                if peer:
                    called["openvino"] = openvino(q, k, v, causal=mask is not None)
                yield Case(op, *words, called, tolerance, own_threads=peer)
            if only in f"{op} gradients":
                back = {n: backward(form, [q, k, v]) for n, form in forms.items()}
                yield Case(f"{op} gradients", *words, back, tolerance)


def cases(only: str) -> Iterator[Case]:
    """Make the cases whose op has a word in it."""
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        yield from of_sizes(only, dtype)
    if "decode" in only or not only:
        yield from of_caches()
    with torch.no_grad():
        yield from of_masks(only)


if __name__ == "__main__":
    main(cases, "benchmarks.ops.attention")
