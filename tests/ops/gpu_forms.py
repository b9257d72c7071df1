"""Forms for GPUs in a process of its own, interpreted: `TRITON_INTERPRET=1 python -m tests.ops.gpu_forms odd`.

`python -m tests.ops.gpu_forms odd executed` has Triton compile them for sm_80 instead, and the PTX executed.
"""

import copy
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from kernelwright import ops
from kernelwright.ops._core.gpu import forms_of
from kernelwright.ops.optim import _steps


def lowbit() -> None:
    """Hold every way to multiply by codes to float64."""
    form = forms_of(Path(str(ops.lowbit.__file__)).parent)[0]["lowbit_linear"]
    module = form.run.__globals__
    torch.manual_seed(0)
    for bits, dtype, (rows, outputs, inner, group), zeros in (
        (1, torch.float16, (2, 70, 200, 64), False), (2, torch.float16, (5, 130, 515, 128), True),
        (4, torch.float16, (20, 64, 96, 32), True), (4, torch.float32, (3, 100, 256, 256), False),
        (8, torch.float16, (33, 65, 70, 32), False),
    ):  # fmt: skip
        codes = torch.randint(0, 256, (-(-outputs // 64), -(-inner // 32), 4, bits, 64), dtype=torch.uint8)
        scales = torch.rand(len(codes), -(-inner // group), 64) * 0.1 + 0.01
        points = torch.randint(0, 2**bits, scales.shape, dtype=torch.uint8) if zeros else None
        x, bias = torch.randn(rows, inner).to(dtype), torch.randn(outputs).to(dtype)
        rest = (0, group, 1, False, outputs)
        exact = ops.lowbit.reference.linear(x.double(), codes, scales.double(), points, bias.double(), *rest)
        for way in ("by_lanes", "by_tiles", "by_unpacking"):
            module["_way"] = lambda x, way=way: module[way]
            found = form.run(x, codes, scales, points, bias, *rest)
            error = ((found.double() - exact).abs().max() / exact.abs().max()).item()
            assert error < (3e-3 if dtype is torch.float16 else 1e-5), (way, bits, error)


def loss() -> None:
    """Hold losses and their gradients to float64 where logits are large; all products are exact."""
    forms = forms_of(Path(str(ops.loss.__file__)).parent)[0]
    torch.manual_seed(0)
    x, weight = torch.randint(-30, 31, (6, 9)) / 16, torch.randint(-30, 31, (37, 9)) / 16
    x[:, 0], weight[:, 0] = 4000.0, 1.0
    target, scale = torch.tensor([0, 36, -100, 5, 5, 12]), torch.rand(6)
    for bias, smoothing, z, cap in (
        (None, 0.0, 0.0, 0.0), (torch.randint(-16, 17, (37,)) / 16, 0.1, 1e-3, 0.0), (None, 0.1, 1e-3, 30.0),
    ):  # fmt: skip
        given = (x, weight, target, bias, -100, smoothing, z, cap)
        wide = [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in given]
        exact = ops.loss.reference.gradients(*wide, scale.double())
        found = forms["linear_cross_entropy_gradients"].run(*given, scale)
        again = forms["linear_cross_entropy"].run(*given)
        for one, other in ((again, exact[0]), *zip(found, exact, strict=True)):
            if other.numel():
                assert (one - other).abs().max() <= 1e-5 * other.abs().max(), (smoothing, z, cap, one, other)


def optim() -> None:
    """Hold steps of AdamW to torch's, while gradients, data and states move to other places, or are not there."""
    form = forms_of(Path(str(ops.optim.__file__)).parent)[0]["optim_adamw_many"]

    def run(step: _steps.Step, numbers: tuple[float, ...], rows: list[object]) -> bool:
        assert form.serves(numbers, rows) is None
        form.run(numbers, rows)
        step._written(rows)
        return True

    _steps.Step.run = run  # type: ignore[method-assign]
    for largest, up in ((False, False), (True, True)):
        mine = [torch.nn.Parameter(torch.randn(s)) for s in ((33, 7), (16,), (64, 32), (0, 3), (9000,))]
        theirs = [torch.nn.Parameter(p.detach().clone()) for p in mine]
        how = {"lr": 1e-2, "amsgrad": largest, "maximize": up}
        both = ops.optim.AdamW(mine, **how), torch.optim.AdamW(theirs, **how)
        for number in range(6):
            for place, pair in enumerate(zip(mine, theirs, strict=True)):
                new = torch.randn_like(pair[0])
                if number == 1 and place == 2:
                    new.view(-1)[:5] = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 1e-40])
                for p in pair:
                    if number == 2 and place == 1:  # from then on it has taken fewer steps
                        p.grad = None
                    elif number == 4 and p.grad is not None:
                        p.grad.copy_(new)
                    else:
                        p.grad = new.clone()
            if number == 3:
                for p in (mine[0], theirs[0]):
                    p.data = p.data.clone() * 2
            if number == 5:
                both[0].load_state_dict(copy.deepcopy(both[1].state_dict()))
            for one in both:
                one.step()
            for p, q in zip(mine, theirs, strict=True):
                torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6, equal_nan=True)


def decode() -> None:
    """Hold decode with a cache of codes and scales of groups of columns to float64."""
    form = forms_of(Path(str(ops.attention.__file__)).parent)[0]["attention_decode"]
    torch.manual_seed(0)
    for bits, dtype, (inner, of_keys), (columns, of_values), window in (
        (8, torch.float32, (64, 32), (96, 32), 0), (4, torch.float16, (96, 32), (64, 64), 20),
        (4, torch.float32, (32, 32), (128, 128), 0), (8, torch.float16, (128, 128), (32, 32), 7),
    ):  # fmt: skip
        q = torch.randn(3, 6, inner).to(dtype)
        k, k_scales = ops.attention.quantize(torch.randn(5, 16, 2, inner) * 3, bits, of_keys)
        v, v_scales = ops.attention.quantize(torch.randn(5, 16, 2, columns), bits, of_values)
        v_scales[4, 3, 1, 0] = torch.nan
        lengths, pages = (
            torch.tensor(x, dtype=torch.int32) for x in ([40, 1, 33], [[3, 0, 2], [1, 9, 9], [0, 2, 4]])
        )
        rest = (None, None, window, inner**-0.5, 0.0)
        given = (q, k, v, lengths, pages, k_scales, v_scales, *rest)
        assert form.serves(*given) is None
        exact = ops.attention.reference.decode(
            q.double(), k, v, lengths, pages.clamp(max=4), k_scales, v_scales, *rest
        )
        for mine, right in zip(form.run(*given), exact, strict=True):
            near = 2e-3 if dtype is torch.float16 else 2e-5
            torch.testing.assert_close(mine.double(), right, rtol=near, atol=near, equal_nan=True)


def odd(cases: tuple[Callable[..., "_Calls"], ...] = ()) -> None:
    """Hold forms to references where numbers are infinite or NaN, next to lanes of tiles that stand for nothing."""
    torch.manual_seed(0)
    inf, nan = torch.inf, torch.nan
    said = []
    for case in cases or (_odd_scans, _odd_attention, _odd_decode, _odd_losses, _odd_centroids):
        for number, (op, arguments) in enumerate(case(inf, nan)):
            (family,) = (
                f for f in ("scan", "attention", "loss", "logits", "kmeans") if op.startswith(_PREFIX[f])
            )
            module = ops.family(family)
            form = forms_of(Path(str(module.__file__)).parent)[0][op]
            assert form.serves(*arguments) is None, op
            (reference,) = (one.reference for one in ops.ops_of(module) if one.name == op)
            both = zip(_flat(form.run(*arguments)), _flat(reference(*arguments)), strict=True)
            for i, (got, own) in enumerate(both):
                if not torch.allclose(got.double(), own.double(), rtol=2e-4, atol=2e-4, equal_nan=True):
                    said.append(f"{case.__name__} {number} result {i}: {got} for {own}")
    assert not said, "\n".join(said)


_PREFIX = {"scan": "scan", "attention": "attention", "loss": "linear", "logits": "logits", "kmeans": "kmeans"}
_Calls = Iterator[tuple[str, tuple[Any, ...]]]


def _flat(found: Any) -> tuple[torch.Tensor, ...]:
    return (found,) if isinstance(found, torch.Tensor) else tuple(found)


def _odd_scans(inf: float, nan: float) -> _Calls:
    u, delta = torch.randn(1, 6, 5), torch.rand(1, 6, 5)
    a, b, c = -torch.rand(5, 3), torch.rand(1, 6, 3), torch.rand(1, 6, 3)
    u[0, 3, 1], delta[0, 2, 4], u[0, 4, 2] = inf, inf, nan
    yield "scan_selective", (u, delta, a, b, c, None, None)
    q, k, v = torch.rand(1, 1, 6, 3), torch.rand(1, 1, 6, 3), torch.randn(1, 2, 6, 5)
    decay, beta, state = -torch.rand(1, 2, 6), torch.rand(1, 2, 6), torch.rand(1, 2, 3, 5)
    grown = decay.clone()
    grown[0, 0, 2] = inf
    v[0, 0, 3, 1], v[0, 1, 4, 2], v[0, 1, 2, 3] = inf, -inf, nan
    yield "scan_linear", (q, k, v, decay, None, 1.0)
    yield "scan_linear", (q, k, v, grown, state, 1.0)
    yield "scan_delta", (q, k, v, beta, decay, state, 1.0)


def _odd_attention(inf: float, nan: float) -> _Calls:
    q, k, v = torch.rand(1, 2, 40, 8) + 0.1, torch.rand(1, 1, 70, 8), torch.randn(1, 1, 70, 5)
    far = k.clone()
    far[:, :, :64, 2] = -inf
    yield "attention", (q, far, v, None, None, None, 0.5, 0.0)
    lost = q.clone()
    lost[0, 1, 3, 2] = nan
    yield "attention", (lost, k, v, None, None, None, 0.5, 0.0)
    causal = torch.stack((torch.zeros(40), torch.arange(40)), -1).int()[None, None, :, None]
    least = torch.tensor([-inf, 0.5])
    yield "attention", (q, k, v, causal, least, None, 0.5, 0.0)
    spoilt = v.clone()
    spoilt[0, 0, 9, 1], spoilt[0, 0, 12, 1], spoilt[0, 0, 20, 2], spoilt[0, 0, 25, 4] = inf, -inf, -inf, nan
    hidden = torch.stack((causal[..., 0], causal[..., 1].clamp(max=30)), -1).contiguous()
    yield "attention", (q, k, spoilt, hidden, None, None, 0.5, 0.0)


def _odd_decode(inf: float, nan: float) -> _Calls:
    q, k, v = torch.rand(2, 2, 8), torch.rand(2, 40, 1, 8), torch.randn(2, 40, 1, 5)
    k[:, 30:], v[:, 30:] = nan, inf
    q[1, 0, 2] = nan
    lengths = torch.tensor([30, 17], dtype=torch.int32)
    for sinks in (None, torch.tensor([-inf, 0.0])):
        yield "attention_decode", (q, k, v, lengths, None, None, None, sinks, None, 0, 0.5, 0.0)


def _odd_losses(inf: float, nan: float) -> _Calls:
    x, weight = torch.randn(4, 3), torch.randn(7, 3)
    large, target = x * 3e19, torch.tensor([1, 6, 0, 3])
    yield "linear_cross_entropy", (large, weight, target, None, -100, 0.0, 0.0, 0.0)
    bias = torch.zeros(7)
    bias[2], bias[5] = inf, inf
    yield "logits_top", (x, weight, bias, 1, 0.0, True)
    bias[2], bias[5] = -inf, nan
    yield "logits_top", (x, weight, bias, 1, 0.0, True)


def _odd_centroids(inf: float, nan: float) -> _Calls:
    x = torch.rand(5, 3) + 0.1
    x[2, 1], x[4, 0] = inf, -inf
    yield "kmeans_assign", (x, torch.rand(17, 3) + 0.1, None)


@contextmanager
def executed() -> Iterator[None]:
    """Compile launches for sm_80 and execute the PTX; what its sanitiser finds is an error."""
    from kernelwright.executor import Options
    from kernelwright.executor.triton import executing

    assert "TRITON_INTERPRET" not in os.environ
    with executing(options=Options(deadline_s=100)) as runs:
        yield
    assert runs
    assert [(run.status, [str(f) for f in run.findings]) for run in runs] == [("ok", [])] * len(runs)


def scan() -> None:
    """Hold scans alone to references where numbers are infinite or NaN."""
    odd((_odd_scans,))


if __name__ == "__main__":
    named = {"lowbit": lowbit, "loss": loss, "optim": optim, "decode": decode, "scan": scan, "odd": odd}[
        sys.argv[1]
    ]
    with executed() if sys.argv[2:] == ["executed"] else nullcontext():
        named()
