"""Forms for GPUs in Triton's interpreter, in a process of its own: `python -m tests.ops.gpu_forms lowbit`."""

import copy
import sys
from pathlib import Path

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
                torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    {"lowbit": lowbit, "loss": loss, "optim": optim}[sys.argv[1]]()
