"""Kernels accepted for a model whose graph breaks → the verdict on the model with them, as a whole.

Covers: the model as `patch` installs it, its pieces found by Dynamo in every call; answers on inputs like the model's
own and on larger ones, held against float64 by the native model's own error; times in turns with the native forms, in
processor time of all threads, with one agreed.
Does not cover: a sandbox, in which each kernel was judged before; branches that none of the inputs take, where kernels
serve what they were verified on all the same.
"""

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import nn

from ..errors import KernelwrightError
from ..records import Budget, DecisionStatus, Interval, RunStatus, Task, TensorSpec
from ..store import Store
from ..tasks import Problem, one_thread
from ..tasks.capture import quiet
from ._accepted import RegionProgram
from ._assemble import Accepted
from ._harm import without_harm
from ._in_turns import Way, decision_on, fastest, in_turns, ratio_of
from ._pieces_patch import PiecesPatch
from ._plan import Planned
from ._region_form import form_of_task
from ._target import Whole
from ._whole_task import whole_task

_FORMS: dict[str, tuple[str | None, bool]] = {
    "compile": (None, False),
    "compile-freezing": (None, True),
    "compile-max-autotune": ("max-autotune", False),
    "compile-max-autotune-freezing": ("max-autotune", True),
}
"""Native forms besides eager: the mode of torch.compile, and whether weights are built in."""
_SCREEN_SHARE = 0.5
"""Part of the time for finding the kernels that work together; the rest is for the verdict."""
_DRAWS, _LARGER = 4, 100.0
_SCREEN_ROUNDS, _MOST_TIMING_S = 12, 60.0
_OF_RESULT = 1e-6
"""Of a result's size, what it may be off in any case."""


@dataclass
class PiecesFound:
    """The verdict on a model with kernels in its pieces."""

    run: str = ""
    """Under which it is kept; empty where nothing was timed."""
    decision: DecisionStatus = DecisionStatus.INCONCLUSIVE
    """Whether it may replace the native model."""
    speedup: Interval | None = None
    """Over the best native form."""
    baseline: str = ""
    """That form."""
    eager_speedup: float | None = None
    """Over eager torch."""
    judged: tuple[Accepted, ...] = ()
    """The kernels in what was judged."""
    out: dict[str, str] | None = None
    """Region → why its kernel is not in the result."""
    reason: str = ""
    """Why nothing better was found."""

    @property
    def kept(self) -> tuple[Accepted, ...]:
        """The kernels in the result."""
        return self.judged if self.decision is DecisionStatus.IMPROVED else ()


class JudgedPieces:
    """Judges a model with kernels in its pieces, as a whole."""

    def __init__(self, plan: Planned, baselines: Sequence[str], say: Callable[..., None]) -> None:
        self._plan, self._say, self._loaded = plan, say, plan.loaded
        self._natives = tuple(b for b in baselines if b == "eager" or b in _FORMS)
        self._unmeasured = tuple(b for b in baselines if b not in self._natives)
        self._ways: dict[str, Way] = {}
        self._out, self._is_screened = dict[str, str](), False

    def judge(self, accepted: Sequence[Accepted], store: Path | str | None, left_s: float) -> PiecesFound:
        """Find the set of kernels that work together, judge the model with them, and keep that as a run."""
        try:
            task = whole_task(self._loaded, self._plan.captured, self._plan.timed).task
        except KernelwrightError as error:
            return PiecesFound(reason=f"the model cannot be judged as a whole: {error}")
        for name in self._unmeasured:
            self._say("whole", message=f"{name} is not measured where the graph breaks")
        until = time.monotonic() + _SCREEN_SHARE * left_s
        with quiet(), torch.no_grad(), one_thread(), torch._dynamo.config.patch(recompile_limit=256):
            try:
                self._ways = {name: self._native(name) for name in self._natives}
                found = self._found(accepted, Problem(task), until, left_s)
            finally:
                torch._dynamo.reset()
        return _kept(found, task, self._plan.plan.device, store) if found.speedup else found

    def _found(
        self, accepted: Sequence[Accepted], problem: Problem, until: float, left_s: float
    ) -> PiecesFound:
        inputs = _inputs(problem, self._loaded.whole)
        kept, out = without_harm(accepted, partial(self._score, inputs=inputs, problem=problem, until=until))
        for one in out:
            self._out.setdefault(one.region.key, "the model is not faster with it")
        if not kept:
            return PiecesFound(out=self._out, reason="no kernel that helps alone helps inside the model")
        ways = {**self._ways, "ours": self._patched(kept, problem)[1]}
        times = in_turns(ways, min(0.3 * left_s, _MOST_TIMING_S), clock=time.process_time)
        baseline = fastest(times, self._natives)
        speedup = ratio_of(times[baseline], times["ours"])
        decision, reason = decision_on(speedup)
        if decision is not DecisionStatus.IMPROVED:
            self._out |= dict.fromkeys(_keys(kept), f"the whole is {decision}")
        eager = median(times["eager"]) / median(times["ours"]) if "eager" in times else None
        return PiecesFound(
            decision=decision, speedup=speedup, baseline=baseline, eager_speedup=eager,
            judged=kept, out=self._out, reason=reason,
        )  # fmt: skip

    def _score(
        self, parts: tuple[Accepted, ...], *, inputs: Sequence[list[torch.Tensor]], problem: Problem, until: float
    ) -> float:  # fmt: skip
        """Return the speedup of the model with some of the kernels, 0 where it is wrong or nothing is served."""
        if self._is_screened and time.monotonic() >= until:
            return 0.0
        self._is_screened = True
        labels = ", ".join(part.region.label for part in parts)
        module, call = self._patched(parts, problem)
        why = self._wrong(module, inputs, problem.task.contract.error_factor)
        if not why and not vars(module)["forward"].__self__.calls:
            why = "no piece of torch.compile has the region"
        score = 0.0
        if not why:
            times = in_turns({**self._ways, "ours": call}, 0.0, least=_SCREEN_ROUNDS, clock=time.process_time)
            score = median(times[fastest(times, self._natives)]) / median(times["ours"])
        elif len(parts) == 1:
            self._out[parts[0].region.key] = why
        self._say("whole", message=f"with {labels}: {why or f'{score:.2f}x'}")
        return score

    def _native(self, name: str) -> Way:
        """Return a native form of the model, compiled."""
        loaded, module = self._loaded, copy.deepcopy(self._loaded.module)
        if name == "eager":
            return lambda: module(*loaded.args, **loaded.kwargs)
        mode, freezing = _FORMS[name]
        compiled = torch.compile(module, mode=mode, dynamic=False)
        with torch._inductor.config.patch(freezing=freezing):
            compiled(*loaded.args, **loaded.kwargs)
        return lambda: compiled(*loaded.args, **loaded.kwargs)

    def _patched(self, parts: Sequence[Accepted], problem: Problem) -> tuple[nn.Module, Way]:
        """Return a copy of the model with some of the kernels, and its call."""
        loaded, module = self._loaded, copy.deepcopy(self._loaded.module)
        programs = []
        for part in parts:
            if (form := form_of_task(part.task)) is None:
                self._out[part.region.key] = "it was verified on fixed values alone"
            else:
                programs.append(RegionProgram(loaded.name, form, part.candidate, part.task))
        specs = [s for s in problem.task.workloads[0].arguments if isinstance(s, TensorSpec)]
        PiecesPatch(module, programs, specs, loaded.whole.call)
        return module, lambda: module(*loaded.args, **loaded.kwargs)

    def _wrong(self, module: nn.Module, inputs: Sequence[list[torch.Tensor]], factor: float) -> str:
        """Say where a patched model is further from float64 than the native one allows; nothing if nowhere."""
        wide = copy.deepcopy(self._loaded.module).double()
        for tensors in inputs:
            native, ours = (self._results(one, tensors) for one in (self._loaded.module, module))
            right = self._results(wide, [t.double() if t.is_floating_point() else t for t in tensors])
            for place, (one, exact, our) in enumerate(zip(native, right, ours, strict=True)):
                off, allowed = (float((v.double() - exact.double()).norm()) for v in (our, one))
                size = float(exact.double().norm())
                if math.isfinite(size) and not off <= factor * allowed + _OF_RESULT * size:
                    return f"output {place} is {off:.3g} off float64, the native one {allowed:.3g}"
        return ""

    def _results(self, module: nn.Module, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        whole = Whole(module, self._loaded.args, self._loaded.kwargs)
        results: tuple[torch.Tensor, ...] = whole(*[t.clone() for t in tensors])
        return results


def _inputs(problem: Problem, whole: Whole) -> list[list[torch.Tensor]]:
    """Return inputs of calls: the model's own, some like them, and larger ones, which may take other branches."""
    workload = problem.task.workloads[0]
    drawn = [
        [t for t in problem.inputs(workload, seed) if isinstance(t, torch.Tensor)] for seed in range(_DRAWS)
    ]
    larger = [[t * _LARGER if t.is_floating_point() else t for t in tensors] for tensors in drawn[:1]]
    return [whole.tensors, *drawn, *larger]


def _keys(parts: Sequence[Accepted]) -> tuple[str, ...]:
    return tuple(part.region.key for part in parts)


def _kept(found: PiecesFound, task: Task, device: str, place: Path | str | None) -> PiecesFound:
    """Keep the verdict as a run of the model's task, by which it is patched and shown."""
    assert found.speedup is not None
    with Store(place) as store:
        run = store.create_run(
            task, device=device, budget=Budget(), seed=0, options={"proposers": ("pieces",)}
        )
        said = {
            "decision": found.decision.value,
            "speedup": found.speedup.model_dump(mode="json"),
            "reason": found.reason,
        }
        store.finish_run(run.id, RunStatus.FINISHED, said)
    found.run = run.id
    return found
