"""What is timed: ops at sizes of real models, and what else computes the same on a GPU."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from kernelwright import ops

Call = Callable[..., Any]
BF = torch.bfloat16


@dataclass(frozen=True)
class Timed:
    """One op at one size."""

    op: str
    size: str
    make: Callable[[], tuple[Any, ...]]
    """Draws what contestants are called with."""
    contestants: dict[str, Call]
    """`ours` first; those that begin with `compile` are compiled."""
    bytes: float = 0.0
    """Least that is read and written."""
    flops: float = 0.0


def rand(*shape: int, dtype: torch.dtype = BF, scale: float = 1.0) -> torch.Tensor:
    """Draw normal numbers on the GPU."""
    return torch.randn(shape, device="cuda", dtype=torch.float32).mul_(scale).to(dtype)


def norms() -> Iterator[Timed]:
    """RMS norm, with a residual, layer norm, and gradients."""
    for rows, n in ((8192, 4096), (64, 8192), (16384, 2048), (4096, 16384)):

        def add(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            s = x + r
            return F.rms_norm(s, s.shape[-1:], w, 1e-6), s

        yield Timed(
            "rms_norm", f"{rows}x{n}", lambda r=rows, n=n: (rand(r, n), rand(n)),
            {"ours": lambda x, w: ops.norms.rms_norm(x, w), "eager": lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6),
             "compile": lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6)}, bytes=4 * rows * n,
        )  # fmt: skip
        yield Timed(
            "add_rms_norm", f"{rows}x{n}", lambda r=rows, n=n: (rand(r, n), rand(r, n), rand(n)),
            {"ours": lambda x, r, w: ops.norms.add_rms_norm(x, r, w), "eager": add, "compile": add}, bytes=8 * rows * n,
        )  # fmt: skip
        yield Timed(
            "layer_norm", f"{rows}x{n}", lambda r=rows, n=n: (rand(r, n), rand(n), rand(n)),
            {"ours": lambda x, w, b: ops.norms.layer_norm(x, w, b), "eager": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b)},
            bytes=4 * rows * n,
        )  # fmt: skip
        if n <= 8192:
            yield Timed(
                "rms_norm_backward", f"{rows}x{n}", lambda r=rows, n=n: (rand(r, n), rand(r, n), rand(n)),
                {"ours": lambda g, x, w: torch.ops.kernelwright.rms_norm_backward(g, x, w, None, 1e-6, 0.0),
                 "eager": lambda g, x, w: ops.norms.reference.rms_norm_backward(g, x, w),
                 "compile": lambda g, x, w: ops.norms.reference.rms_norm_backward(g, x, w)}, bytes=6 * rows * n,
            )  # fmt: skip


def pointwise() -> Iterator[Timed]:
    """SwiGLU, its gradient, and rope."""
    for rows, n in ((8192, 14336), (2048, 11008), (64, 14336), (16384, 4096)):
        yield Timed(
            "swiglu", f"{rows}x{n}", lambda r=rows, n=n: (rand(r, n), rand(r, n)),
            {"ours": ops.activations.swiglu, "eager": lambda g, u: F.silu(g) * u, "compile": lambda g, u: F.silu(g) * u},
            bytes=6 * rows * n,
        )  # fmt: skip
    for batch, length, heads, kv in ((4, 2048, 32, 8), (1, 8192, 32, 8), (8, 1024, 64, 8), (64, 1, 32, 8)):

        def turned(
            q: torch.Tensor, k: torch.Tensor, c: torch.Tensor, s: torch.Tensor
        ) -> tuple[torch.Tensor, ...]:
            c, s = (torch.cat((t, t), -1)[: q.shape[1], None] for t in (c, s))

            def one(x: torch.Tensor) -> torch.Tensor:
                a, b = x.chunk(2, -1)
                return (x * c + torch.cat((-b, a), -1) * s).to(x.dtype)

            return one(q), one(k)

        yield Timed(
            "rope", f"{batch}x{length}x{heads}+{kv}x128",
            lambda b=batch, n=length, h=heads, k=kv: (rand(b, n, h, 128), rand(b, n, k, 128), *(rand(n, 64, dtype=torch.float32) for _ in "cs")),
            {"ours": ops.rope.rope, "eager": turned, "compile": turned}, bytes=4 * batch * length * (heads + kv) * 128,
        )  # fmt: skip


def attention() -> Iterator[Timed]:
    """Dense, causal and windowed attention against torch's back ends."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    masks = ops.attention.masks

    def by(backend: SDPBackend, causal: bool) -> Call:
        def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(
                    q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
                )

        return run

    for batch, heads, kv, rows, d in (
        (4, 32, 8, 2048, 128),
        (1, 32, 8, 8192, 128),
        (8, 16, 16, 1024, 64),
        (2, 32, 32, 4096, 128),
    ):
        for causal in (False, True):
            yield Timed(
                "attention causal" if causal else "attention", f"{batch}x{heads}/{kv}x{rows}x{d}",
                lambda b=batch, h=heads, g=kv, n=rows, d=d: (rand(b, h, n, d), rand(b, g, n, d), rand(b, g, n, d)),
                {"ours": lambda q, k, v, c=causal: ops.attention.attention(q, k, v, masks.Causal() if c else None),
                 "flash": by(SDPBackend.FLASH_ATTENTION, causal), "cudnn": by(SDPBackend.CUDNN_ATTENTION, causal)},
                flops=4 * batch * heads * rows * rows * d / (2 if causal else 1),
            )  # fmt: skip
    for window in (512, 1024):
        for rows in (8192, 16384):
            mask = masks.SlidingWindow(window, causal=True)
            yield Timed(
                "attention window", f"1x32/8x{rows}x128, {window}",
                lambda n=rows: (rand(1, 32, n, 128), rand(1, 8, n, 128), rand(1, 8, n, 128)),
                {"ours": lambda q, k, v, m=mask: ops.attention.attention(q, k, v, m), "flash, causal": by(SDPBackend.FLASH_ATTENTION, True)},
                flops=4 * 32 * rows * window * 128,
            )  # fmt: skip


def decode() -> Iterator[Timed]:
    """One token of each sequence against a long cache."""
    for batch, heads, kv, length, d in (
        (1, 32, 8, 32768, 128),
        (16, 32, 8, 8192, 128),
        (64, 32, 8, 2048, 128),
        (8, 64, 8, 16384, 128),
    ):

        def drawn(
            b: int = batch, h: int = heads, g: int = kv, n: int = length, d: int = d
        ) -> tuple[torch.Tensor, ...]:
            lengths = torch.full((b,), n, device="cuda", dtype=torch.int32)
            return rand(b, h, d), rand(b, n, g, d), rand(b, n, g, d), lengths

        def torchs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            k, v = k.transpose(1, 2), v.transpose(1, 2)
            return F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)[:, :, 0]

        yield Timed(
            "attention.decode", f"{batch}x{heads}/{kv}x{length}x{d}", drawn,
            {"ours": ops.attention.decode, "sdpa": torchs}, bytes=4 * batch * kv * length * d,
        )  # fmt: skip


def lowbit() -> Iterator[Timed]:
    """W4A16 of few rows against a bfloat16 layer."""
    for outputs, inner in ((4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192)):

        def drawn(rows: int, outputs: int = outputs, inner: int = inner) -> tuple[Any, ...]:
            w = rand(outputs, inner)
            return rand(rows, inner), w, ops.lowbit.pack(w, 4, 128)

        for rows in (1, 4, 16, 512):
            yield Timed(
                "lowbit 4 bits", f"{rows}x{inner}x{outputs}", lambda r=rows, d=drawn: d(r),
                {"ours": lambda x, w, p: ops.lowbit.linear(x, p), "bfloat16": lambda x, w, p: F.linear(x, w)},
                bytes=0.5 * outputs * inner * (1 + 4 / 128) + 2 * rows * (inner + outputs),
            )  # fmt: skip


def loss() -> Iterator[Timed]:
    """Linear cross-entropy, forward and backward, of a vocabulary of 128k."""

    def step(call: Call) -> Call:
        def run(x: torch.Tensor, w: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, ...]:
            x, w = x.requires_grad_(), w.requires_grad_()
            found = call(x, w, t)
            return (found.detach(), *torch.autograd.grad(found, (x, w)))

        return run

    def plain(x: torch.Tensor, w: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.linear(x, w).float(), t)

    for rows, inner, many in (
        (8192, 4096, 128256),
        (4096, 2048, 128256),
        (4096, 4096, 32000),
        (2048, 4096, 151936),
    ):
        yield Timed(
            "linear_cross_entropy", f"{rows}x{inner}x{many}",
            lambda r=rows, n=inner, m=many: (rand(r, n), rand(m, n, scale=0.02), torch.randint(m, (r,), device="cuda")),
            {"ours": step(ops.loss.linear_cross_entropy), "eager": step(plain), "compile step": step(plain)},
            flops=6.0 * rows * inner * many,
        )  # fmt: skip


def experts() -> Iterator[Timed]:
    """A layer of experts against torch's grouped products."""
    for tokens, many, chosen, hidden, width in (
        (8192, 64, 8, 2048, 1024),
        (64, 64, 8, 2048, 1024),
        (4096, 8, 2, 4096, 14336),
        (16, 8, 2, 4096, 14336),
    ):
        both, down = rand(many, 2 * width, hidden, scale=0.02), rand(many, hidden, width, scale=0.02)
        packed = ops.moe.pack(both, down)

        def grouped(
            x: torch.Tensor,
            w: torch.Tensor,
            ids: torch.Tensor,
            both: torch.Tensor = both,
            down: torch.Tensor = down,
        ) -> torch.Tensor:
            chosen = ids.shape[1]
            flat = ids.reshape(-1)
            order = flat.argsort()
            ends = torch.searchsorted(flat[order], torch.arange(1, len(both) + 1, device=x.device)).int()
            hidden = torch._grouped_mm(x[order // chosen], both.transpose(1, 2), ends)
            gate, up = hidden.chunk(2, -1)
            parts = torch._grouped_mm(F.silu(gate) * up, down.transpose(1, 2), ends)
            out = torch.zeros_like(x, dtype=torch.float32)
            return out.index_add_(0, order // chosen, parts.float() * w.reshape(-1)[order, None]).to(x.dtype)

        yield Timed(
            "moe.experts", f"{tokens} tokens, {many}/{chosen}, {hidden}x{width}",
            lambda t=tokens, e=many, c=chosen, h=hidden: (rand(t, h), *ops.moe.gate(rand(t, e), c)),
            {"ours": lambda x, w, i, p=packed: ops.moe.experts(x, p, w, i), "grouped_mm": grouped},
            bytes=min(1, tokens * chosen / many) * 6 * many * hidden * width, flops=6 * tokens * chosen * hidden * width,
        )  # fmt: skip


def others() -> Iterator[Timed]:
    """Nearest centroids, products with sparse matrices, largest logits, and rows of a table."""
    for rows, many, n in (
        (1_000_000, 8, 32),
        (1_000_000, 256, 64),
        (200_000, 1024, 128),
        (100_000, 4096, 256),
    ):
        yield Timed(
            "kmeans.assign", f"{rows}x{n}, {many}", lambda r=rows, m=many, n=n: (rand(r, n, dtype=torch.float32), rand(m, n, dtype=torch.float32)),
            {"ours": lambda x, c: ops.kmeans.assign(x, c)[1], "reference": lambda x, c: ops.kmeans.reference.assign(x, c)[1],
             "compile": lambda x, c: ((x.square().sum(1)[:, None] + c.square().sum(1)) - 2 * x @ c.T).min(1)[0]},
            bytes=4 * rows * n, flops=2 * rows * many * n,
        )  # fmt: skip
    for rows, each, width in ((100_000, 16, 64), (100_000, 16, 256), (20_000, 64, 128), (1_000_000, 4, 64)):

        def matrix(r: int = rows, e: int = each, w: int = width) -> tuple[torch.Tensor, torch.Tensor]:
            col = torch.randint(r, (r * e,), device="cuda")
            crow = torch.arange(0, r * e + 1, e, device="cuda")
            return torch.sparse_csr_tensor(crow, col, rand(r * e, dtype=torch.float32), (r, r)), rand(
                r, w, dtype=torch.float32
            )

        yield Timed("sparse.spmm", f"{rows} rows of {each}, {width}", matrix, {"ours": ops.sparse.spmm, "cusparse": lambda a, x: a @ x},
                    bytes=12 * rows * each + 8 * rows * width)  # fmt: skip
    for rows, inner, many in ((1, 4096, 128256), (16, 4096, 128256), (512, 4096, 128256), (64, 2048, 32000)):
        yield Timed(
            "logits.logsumexp", f"{rows}x{inner}x{many}", lambda r=rows, n=inner, m=many: (rand(r, n), rand(m, n)),
            {"ours": lambda x, w: ops.logits.logsumexp(x, w), "eager": lambda x, w: F.linear(x, w).float().logsumexp(1)},
            bytes=2 * inner * many, flops=2 * rows * inner * many,
        )  # fmt: skip
    for tokens, table, n in (
        (8192, 128256, 4096),
        (65536, 32000, 1024),
        (64, 128256, 8192),
        (16384, 50257, 768),
    ):
        yield Timed(
            "embedding", f"{tokens} of {table}x{n}", lambda t=tokens, m=table, n=n: (torch.randint(m, (t,), device="cuda"), rand(m, n)),
            {"ours": ops.embedding.embedding, "eager": F.embedding}, bytes=4 * tokens * n,
        )  # fmt: skip


def optimizers() -> Iterator[Timed]:
    """Steps of AdamW over the parameters of a model, against torch's fused one."""
    for name, shapes in (
        ("GPT-2 124M", [(768, 768), (3072, 768), (768, 3072), (2304, 768), (768,), (768,)] * 12 + [(50257, 768)]),
        ("1.2B", [(2048, 2048), (8192, 2048), (2048, 8192), (2048,), (2048,)] * 28), ("one of 512M", [(1 << 29,)]), ("64 small", [(256, 256)] * 64),
    ):  # fmt: skip

        def made(shapes: list[tuple[int, ...]] = shapes) -> tuple[Any, ...]:
            def params() -> list[torch.nn.Parameter]:
                found = [torch.nn.Parameter(torch.ones(s, device="cuda")) for s in shapes]
                for p in found:
                    p.grad = torch.ones_like(p)
                return found

            return ops.optim.AdamW(params()), torch.optim.AdamW(params(), fused=True)

        count = sum(torch.Size(s).numel() for s in shapes)
        yield Timed(
            "optim.AdamW",
            name,
            made,
            {"ours": lambda a, b: a.step(), "fused": lambda a, b: b.step()},
            bytes=28.0 * count,
        )


GROUPS: dict[str, Callable[[], Iterator[Timed]]] = {
    "attention": attention, "norms": norms, "lowbit": lowbit, "experts": experts, "loss": loss, "decode": decode,
    "pointwise": pointwise, "optimizers": optimizers, "others": others,
}  # fmt: skip
"""Those with what is compiled lie so that processes which take every third share it."""
