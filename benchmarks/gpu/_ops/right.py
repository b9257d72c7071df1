"""One family on the GPU, in a process of its own: every op on its cases, and every public function, against float64.

    python -m benchmarks.gpu._ops.right FAMILY --seconds 60 [--device cpu]

Prints a JSON object a line. On a CPU, `TRITON_INTERPRET=1` has the forms for GPUs called directly, to try this file.
"""

import argparse
import dataclasses
import json
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from kernelwright import ops
from kernelwright.api.ops import cases_of, task_of
from kernelwright.api.special_values import special_calls
from kernelwright.ops._core.gpu import forms_of
from kernelwright.records import Workload
from kernelwright.tasks import Problem
from kernelwright.tasks.inputs.regimes import LONE, SPECIAL, kind_of
from kernelwright.verify import Oracle, error_against

MOST = 1 << 26
"""Elements of arguments beyond which a workload is left out."""
Judged = Callable[[Sequence[torch.Tensor]], bool]
NOT_FINITE = frozenset({SPECIAL, *LONE})
"""Regimes with NaN and infinities, of which no share leaves a workload out."""
UNSURE = frozenset({"kmeans_assign", "kmeans_step", "logits_top", "moe_gate", "embedding_bag"})
"""Ops whose whole numbers may differ where numbers are nearly equal; at most one in 500 may."""


def flat(found: Any) -> tuple[torch.Tensor, ...]:
    """Return the tensors of a result."""
    return (
        (found,)
        if isinstance(found, torch.Tensor)
        else tuple(t for t in found if isinstance(t, torch.Tensor))
    )


def moved(x: Any, device: str) -> Any:
    """Return tensors on a device, with their strides where they are dense, and lists of tensors."""
    if isinstance(x, torch.Tensor):
        if x.layout is not torch.strided or 0 in x.stride():
            return x.to(device)
        there = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)
        return there.copy_(x.detach()).requires_grad_(x.requires_grad)
    if isinstance(x, list | tuple):
        return type(x)(moved(one, device) for one in x)
    return x


def wide(x: Any) -> Any:
    """Return numbers in float64."""
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def judged(
    problem: Problem, workload: Workload, inputs: Sequence[Any], results: Sequence[torch.Tensor]
) -> bool:
    """Tell whether the judge takes results that are further off than the reference is, or have other infinities.

    Where scores are in the hundreds, rounding alone moves a softmax by more than a reference happens to be off.
    """
    case = Oracle(problem).make(workload, 7, inputs, {}, times=8, measured=True)
    pairs = zip(results, case.outputs, strict=True)
    return case.usable and all(error_against(x.cpu(), allowed, case.tensors).ok for x, allowed in pairs)


def poisoned(device: str) -> None:
    """Leave NaN where the next results will be allocated."""
    if device == "cpu":
        return
    held = [
        torch.full((n,), float("nan"), device=device) for n in (1 << 26, *[1 << 12] * 64, *[1 << 17] * 32)
    ]
    del held


def wrong(op: str, got: torch.Tensor, own: torch.Tensor, exact: torch.Tensor) -> str:
    """Say what is wrong with a result: held to 4 times the reference's own error, or 16 epsilon of the scale."""
    if got.shape != own.shape or got.dtype != own.dtype:
        return f"is {tuple(got.shape)} {got.dtype}, not {tuple(own.shape)} {own.dtype}"
    got, own, exact = got.cpu(), own.cpu(), exact.cpu()
    if not got.is_floating_point():
        share = (got != own).double().mean().item() if got.numel() else 0.0
        return f"{share:.3g} of whole numbers differ" if share > (0.002 if op in UNSURE else 0) else ""
    told = own.isfinite() | ~exact.isfinite()  # elsewhere the reference overflows where float64 does not
    got, own, exact = got[told], own[told], exact[told]
    if not torch.equal(got.isnan(), own.isnan()):
        return f"NaN at {int(got.isnan().sum())} places, the reference at {int(own.isnan().sum())}"
    finite = exact.isfinite() & own.isfinite()
    if not torch.equal(got[~finite].nan_to_num(), own[~finite].nan_to_num()):
        return "other infinities"
    if not finite.any():
        return ""
    error, before = ((t.double() - exact)[finite].abs().max().item() for t in (got, own))
    floor = 16 * torch.finfo(got.dtype).eps * exact[finite].abs().max().item()
    return f"error {error:.3g}, of the reference {before:.3g}" if error > max(4 * before, floor) else ""


class Family:
    """Calls the ops of a family and says how it went."""

    def __init__(self, name: str, device: str, until: float) -> None:
        self.name, self.device, self.until = name, device, until
        module = ops.family(name)
        self.ops = {op.name: op for op in ops.ops_of(module)}
        self.forms = forms_of(Path(str(module.__file__)).parent)[0]

    def call(self, op: str, arguments: list[Any]) -> tuple[Any, str]:
        """Return what an op returns, and what ran."""
        if self.device != "cpu":
            found: list[Any] = []
            told = ops.watch(lambda: found.append(self.ops[op](*arguments)))
            return found[0], " / ".join(dict.fromkeys(f"{one.serves} {one.why}".strip() for one in told))
        self.ops[op].check(*arguments)
        form = self.forms.get(op)
        why = form.serves(*arguments) if form else "no form"
        some = all(x.numel() for x in arguments if isinstance(x, torch.Tensor))
        if form is None or why or not some:
            return self.ops[op].reference(*arguments), f"reference {why}"
        return form.run(*arguments), "triton"

    def workloads(self, share: int, shares: int) -> Iterator[tuple[str, str, list[Any], Judged]]:
        """Yield op, workload, arguments and what judges results of every case, all ops in turn, those timed last."""
        most = MOST if self.device != "cpu" else 1 << 16
        queues = []
        for cases in cases_of(self.name):
            problem = Problem(task_of(self.name, cases))
            among = problem.task.workloads
            odd = [w for i, w in enumerate(among) if i % shares != share and kind_of(w.regime) in NOT_FINITE]
            queues.append((cases, problem, [*odd, *among[share::shares]]))
        while any(left for _, _, left in queues):
            for cases, problem, left in queues:
                if left:
                    workload = left.pop()
                    inputs = problem.inputs(workload, 7)
                    odd = (
                        self.device == "cpu" and inputs[0].dtype is torch.bfloat16
                    )  # the interpreter's products are wrong
                    if not odd and sum(x.numel() for x in inputs if isinstance(x, torch.Tensor)) <= most:
                        yield (
                            cases.op,
                            workload.name,
                            list(inputs),
                            partial(judged, problem, workload, inputs),
                        )

    def special(self, share: int, shares: int) -> Iterator[tuple[str, str, list[Any], Judged]]:
        """Yield the same of calls with special values in one argument, which cases of restricted values have too."""
        for cases in cases_of(self.name):
            if cases.op not in self.forms:
                continue
            task = task_of(self.name, cases)
            if self.device == "cpu":  # the interpreter's products are wrong in bfloat16
                fit = [w for w in task.workloads if w.arguments[0].dtype != "bfloat16"]
                task = task.model_copy(update={"workloads": tuple(fit)})
            for one in islice(special_calls(task, cases, workloads=2), share, None, shares):
                if one.judged:
                    name = f"{one.workload}, {one.kind} in {one.argument}"
                    yield cases.op, name, list(one.inputs), lambda found, one=one: not one.wrong(found)

    def one(self, op: str, arguments: list[Any], judge: Judged) -> dict[str, Any]:
        """Call an op on one workload and compare."""
        there = [moved(x, self.device) for x in arguments]
        poisoned(self.device)
        begun = time.monotonic()
        try:
            got, ran = self.call(op, there)
            if self.device != "cpu":
                torch.cuda.synchronize()
        except ops._core.arguments.ArgumentError as error:
            return {"status": "refused", "why": str(error)}
        took = time.monotonic() - begun
        reference = self.ops[op].reference
        exact = flat(reference(*map(wide, arguments)))
        own = flat(reference(*arguments))
        results = zip(flat(got), own, exact, strict=True)
        said = [f"result {i} {what}" for i, parts in enumerate(results) if (what := wrong(op, *parts))]
        near = bool(said) and judge(flat(got))
        return {
            "status": "wrong" if said and not near else "right",
            "ran": ran,
            "why": "; ".join(said) + ": within what the judge allows" * near,
            "took_s": round(took, 3),
        }


def attempt(row: dict[str, Any], run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a row of what a run says, or of how it failed."""
    try:
        return row | run()
    except Exception as error:  # noqa: BLE001  whatever it is, it is told of
        lines = traceback.format_exc().splitlines()
        return row | {
            "status": "failed",
            "why": f"{type(error).__name__}: {error}"[:500],
            "trace": lines[-24:],
        }


def public(name: str, device: str) -> Iterator[dict[str, Any]]:
    """Call every public function with tensors on the device and on the CPU; compare results and gradients."""
    from tests.ops.wrong.legal import LEGAL

    torch.manual_seed(5)
    calls = LEGAL[name]()
    for number, (function, given) in enumerate(calls):
        row = {"kind": "function", "family": name, "op": f"{function.__name__}-{number}"}
        yield attempt(row, lambda f=function, g=given: _public(f, g, device))


def _public(function: Callable[..., Any], given: dict[str, Any], device: str) -> dict[str, Any]:
    try:
        there = {key: _held(x, device) for key, x in given.items()}
    except TypeError as error:
        return {"status": "skipped", "why": str(error)}
    expected, got, said = function(**given), function(**there), []
    if isinstance(expected, torch.Tensor | tuple):
        if function.__name__ == "monarch_factors":  # of singular vectors the signs are free
            got, expected = ((f[0].abs(), f[1].abs()) for f in (got, expected))
        for mine, theirs in zip(flat(got), flat(expected), strict=True):
            if mine.device.type != device:
                said.append(f"a result is on {mine.device}")
            one, two = (
                t if t.layout is torch.strided else t.to_dense() for t in (mine.detach(), theirs.detach())
            )
            torch.testing.assert_close(one.cpu(), two, rtol=2e-4, atol=2e-4)
        try:
            slopes = _slopes(function, given)
        except (RuntimeError, ValueError):  # it has none
            slopes = {}
        if slopes:
            for key, mine in _slopes(function, there).items():
                torch.testing.assert_close(
                    mine.cpu(), slopes[key], rtol=2e-3, atol=2e-3, msg=lambda m, k=key: f"{k}: {m}"
                )
    return {"status": "wrong" if said else "right", "why": "; ".join(said)}


def _slopes(function: Callable[..., Any], given: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return the gradients of a weighted sum of results by every tensor of numbers."""
    leaves = {
        key: x.detach().clone().requires_grad_() for key, x in given.items()
        if isinstance(x, torch.Tensor) and x.is_floating_point() and x.layout is torch.strided
    }  # fmt: skip
    outs = [t for t in flat(function(**given | leaves)) if t.requires_grad and t.layout is torch.strided]
    total = sum((t * torch.arange(t.numel(), device=t.device).view(t.shape).cos()).sum() for t in outs)
    if not isinstance(total, torch.Tensor):
        return {}
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return {key: g for key, g in zip(leaves, found, strict=True) if g is not None}


def _held(x: Any, device: str) -> Any:
    from tests.ops.wrong import legal

    if isinstance(x, torch.Tensor | list | tuple):
        return moved(x, device)
    if isinstance(x, int | float | str | bool | None | torch.dtype) or type(x).__module__.endswith("masks"):
        return x
    if isinstance(x, ops.graph.RelationalGraph):
        with torch.device(device):
            return legal.edges()
    if isinstance(x, ops.gemm.Packed):
        if x.native is not None:
            return ops.gemm.pack(moved(x.native, device))
        plain = ops.gemm.reference.unpacked(x.panels, x.inner, x.columns)
        plain = plain if plain.dtype is not torch.uint8 else (plain.short() - 128).to(torch.int8)
        return ops.gemm.pack(plain.to(device), follow=False)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return type(x)(**{one.name: _held(getattr(x, one.name), device) for one in dataclasses.fields(x)})
    raise TypeError(f"a {type(x).__name__} is made on its device")


def dispatched() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield checks of how a call gets to its form."""
    x, w = torch.randn(64, 256, device="cuda"), torch.randn(256, device="cuda")
    expected = torch.nn.functional.rms_norm(x, (256,), w, 1e-6)

    def close(got: torch.Tensor, other: torch.Tensor) -> dict[str, Any]:
        torch.cuda.synchronize()
        torch.testing.assert_close(got, other, rtol=1e-5, atol=1e-5)
        return {"status": "right"}

    def on_a_stream() -> dict[str, Any]:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            late = x * 2
            got = ops.norms.rms_norm(late, w, eps=1e-6)
        stream.synchronize()
        return close(got, torch.nn.functional.rms_norm(late, (256,), w, 1e-6))

    def in_a_graph() -> dict[str, Any]:
        ops.norms.rms_norm(x, w)
        graph, held = torch.cuda.CUDAGraph(), x.clone()
        with torch.cuda.graph(graph):
            got = ops.norms.rms_norm(held, w, eps=1e-6)
        held.mul_(3)
        graph.replay()
        return close(got, torch.nn.functional.rms_norm(held, (256,), w, 1e-6))

    def compiled() -> dict[str, Any]:
        run = torch.compile(lambda x: ops.norms.rms_norm(x + 1, w, eps=1e-6) * 2, fullgraph=True)
        return close(run(x), torch.nn.functional.rms_norm(x + 1, (256,), w, 1e-6) * 2)

    def explained() -> dict[str, Any]:
        told = ops.watch(lambda: ops.norms.rms_norm(x, w))
        said = [(one.op, one.serves, one.why) for one in told]
        return {"status": "right" if said == [("rms_norm", "triton", "")] else "wrong", "why": str(said)}

    def said_once() -> dict[str, Any]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                ops.norms.rms_norm(x.double(), w.double())
        said = [str(one.message) for one in caught]
        return {"status": "right" if len(said) == 1 else "wrong", "why": "; ".join(said)}

    def optimized() -> dict[str, Any]:
        mine, theirs = (torch.nn.Linear(64, 48, device="cuda") for _ in range(2))
        theirs.load_state_dict(mine.state_dict())
        steps = ops.optim.AdamW(mine.parameters(), lr=1e-2), torch.optim.AdamW(theirs.parameters(), lr=1e-2)
        for _ in range(3):
            for layer, step in zip((mine, theirs), steps, strict=True):
                step.zero_grad()
                layer(x[:, :64]).square().sum().backward()
                step.step()
        return close(mine.weight.detach(), theirs.weight.detach())

    yield "plain", lambda: close(ops.norms.rms_norm(x, w, eps=1e-6), expected)
    for check in (on_a_stream, in_a_graph, compiled, explained, said_once, optimized):
        yield check.__name__, check


def main() -> int:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("family")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--share", type=int, nargs=2, default=(0, 1), help="which of how many parts of the cases"
    )
    parser.add_argument("--only-special", action="store_true", help="calls with special values alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    until = time.monotonic() + options.seconds
    if options.device != "cpu" and not options.share[0]:
        if options.family == "norms":
            for name, check in dispatched():
                print(
                    json.dumps(attempt({"kind": "dispatch", "family": "norms", "op": name}, check)),
                    flush=True,
                )
        for row in public(options.family, options.device):
            print(json.dumps(row), flush=True)
    family = Family(options.family, options.device, until)
    rest = 0
    plain = () if options.only_special else family.workloads(*options.share)
    for op, workload, arguments, judge in chain(plain, family.special(*options.share)):
        if time.monotonic() > until:
            rest += 1
            continue
        row = {"kind": "case", "family": options.family, "op": op, "workload": workload}
        print(json.dumps(attempt(row, partial(family.one, op, arguments, judge))), flush=True)
        if options.device != "cpu" and not torch.cuda.is_available():
            break
    print(json.dumps({"kind": "end", "family": options.family, "left_out": rest}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
