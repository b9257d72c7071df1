"""Task → a page in a browser → what it found, held to the contract.

The judge draws the inputs and works out what is right, in float64. The page has one case with its expected values, for
tuning; then it answers on fresh inputs, whose expected values stay here, and the judge compares.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError, MissingToolError, WorkerError, known_names
from ..records import Split, Task, Workload
from ..tasks import Problem
from ..tasks.capture import recorded
from ..verify import Case as Judged
from ..verify import Comparison, Oracle, Seeds, error_against
from ..web import Case, Expected, Peer, Program, Server, model_of, open_headless, program_of, write_page
from .shaders import Shader, shaders_of

__all__ = ["FRESH", "OnWeb", "Tuned", "build", "on_web", "runtime_folder", "serve", "tune"]

FRESH = 3
"""Fresh inputs that the tuned kernels answer on."""
_RUNTIME = "ort.wasm.min.mjs"
_BEYOND_S = 60.0
"""Seconds beyond tuning that a page may take."""
Report = dict[str, object]


@dataclass(frozen=True)
class OnWeb:
    """A task with kernels for a browser."""

    problem: Problem
    """The task, live."""
    workload: Workload
    """The sizes that the code is made for."""
    program: Program
    """What the browser makes and runs."""
    case: Judged
    """What it is tuned on."""
    onnx: bytes | None
    """The same as an ONNX model, if it can be written as one."""
    shaders: list[Shader]
    """The same in WGSL, as variants; empty where the compiler prints no single source."""

    def page(self, folder: Path, *, budget_s: float, fresh: int = 0) -> None:
        """Write its page."""
        expected = [_expected(t.truth, t.allowed) for t in self.case.outputs]
        case = Case(_values(self.workload, self.case), expected)
        name = f"{self.problem.task.name}, {self.workload.name}"
        write_page(
            folder,
            self.program,
            case,
            name=name,
            budget_s=budget_s,
            onnx=self.onnx,
            shaders=self.shaders,
            fresh=fresh,
        )


@dataclass
class Tuned:
    """What came of tuning in one browser."""

    report: Report
    """What the page found: device, steps, blocks, ratios."""
    comparisons: dict[int, list[Comparison]] = field(default_factory=dict)
    """Of every output by the number of the fresh inputs; those from `FRESH` on are WebGPU's."""

    @property
    def ok(self) -> bool:
        """Whether every answer was right, those on fresh inputs too."""
        webgpu = self.report.get("webgpu")
        due = FRESH * (2 if isinstance(webgpu, dict) and webgpu["best"] else 1)
        return (
            bool(self.report.get("ok"))
            and set(self.comparisons) == set(range(due))
            and all(c.ok for c in self._all)
        )

    @property
    def error(self) -> float:
        """The worst error on fresh inputs, as a multiple of what is allowed."""
        return max((max(c.error, c.norm, c.common) for c in self._all), default=float("inf"))

    @property
    def _all(self) -> list[Comparison]:
        return [c for one in self.comparisons.values() for c in one]


def on_web(task: Task, workload: str = "", *, webgpu: bool = False) -> OnWeb:
    """Choose a task's kernels for the browser and work out what is right.

    Args:
        task: What to compute.
        workload: Name of a search workload, whose sizes the code is made for; the first by default.
        webgpu: Whether to print variants in WGSL too.

    Raises:
        InputError: the task has no workload of that name, a part of it has no kernel for the web, or the native op does
            not meet its own contract on it.
    """
    problem, search = Problem(task), {w.name: w for w in task.split(Split.SEARCH)}
    if task.contract.stochastic or task.contract.backward:
        raise InputError(f"task {task.name!r} is random or backward, which has no kernel for the web")
    if workload and workload not in search:
        raise InputError(f"no search workload is called {workload!r}; {known_names(workload, list(search))}")
    chosen = search[workload] if workload else next(iter(search.values()))
    graph = recorded(problem, chosen)
    program = program_of(graph)
    case = Oracle(problem).case(chosen, Seeds().draw())
    if not case.usable:
        raise InputError(
            f"the native op does not meet its own contract on {chosen.name}; nothing can be held to it"
        )
    state = {name: _flat(tensor) for name, tensor in case.state.items()}
    return OnWeb(
        problem, chosen, program, case, model_of(graph, state), shaders_of(problem, chosen) if webgpu else []
    )


def build(made: OnWeb, folder: Path, *, budget_s: float) -> None:
    """Write the page of a task into a folder, to be put on any web server.

    Raises:
        InputError: the folder has files that are no page of ours.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / "task.json").exists():
        raise InputError(f"{str(folder)!r} is not empty; name a new folder with --to")
    made.page(folder, budget_s=budget_s)


def tune(made: OnWeb, *, budget_s: float, runtime: Path | None = None, peer: Peer | None = None) -> Tuned:
    """Tune in a headless Chromium and judge what it serves.

    Args:
        made: The task's page.
        budget_s: Seconds that tuning may take.
        runtime: Folder of onnxruntime-web's files, to be timed against.
        peer: Another library to be timed against.

    Raises:
        MissingToolError: no Chromium is here.
        WorkerError: the browser ended, or did not answer in time.
    """
    with _served(made, budget_s, runtime, 0, peer) as (server, tuned), open_headless(server.url) as process:
        found = server.result(budget_s + _BEYOND_S, lambda: process.poll() is None)
        if found is None:
            ended = f"ended with {process.poll()}" if process.poll() is not None else "did not answer in time"
            raise WorkerError(f"the browser {ended}; try `kernelwright web serve` and open the page by hand")
        tuned.report = dict(found)
    return tuned


@contextmanager
def serve(
    made: OnWeb, *, budget_s: float, runtime: Path | None = None, port: int = 0, peer: Peer | None = None
) -> Iterator[tuple[Server, Tuned]]:
    """Serve the page of a task on this machine; `Server.result` waits for each browser that opens it."""
    with _served(made, budget_s, runtime, port, peer) as served:
        yield served


@contextmanager
def _served(
    made: OnWeb, budget_s: float, runtime: Path | None, port: int, peer: Peer | None = None
) -> Iterator[tuple[Server, Tuned]]:
    tuned = Tuned({})
    with tempfile.TemporaryDirectory() as folder:
        made.page(Path(folder), budget_s=budget_s, fresh=FRESH)
        with Server(Path(folder), _Judge(made, tuned), port=port, runtime=runtime, peer=peer) as server:
            yield server, tuned


class _Judge:
    """Draws fresh inputs for a page and compares what it makes of them."""

    def __init__(self, made: OnWeb, tuned: Tuned) -> None:
        self.made, self.tuned = made, tuned
        self.seeds, self.oracle = Seeds(), Oracle(made.problem)
        self.cases: dict[int, Judged] = {}

    def fresh(self, index: int) -> bytes:
        """Draw inputs, once for each number, on the state that the page has."""
        if index not in self.cases:
            seed = self.seeds.draw()
            inputs = self.made.problem.inputs(self.made.workload, seed)
            self.cases[index] = self.oracle.make(self.made.workload, seed, inputs, self.made.case.state)
        values = _values(self.made.workload, self.cases[index])
        given = [values[t.name] for t in self.made.program.tensors if t.role == "input"]
        return b"".join(v.astype("<f4").tobytes() for v in given)

    def outputs(self, index: int, content: bytes) -> None:
        """Compare outputs with what was expected; too few bytes are wrong."""
        compared, at = self.tuned.comparisons.setdefault(index, []), 0
        for tolerance in self.cases.pop(index).outputs:
            size = tolerance.native.numel() * 4
            piece, at = content[at : at + size], at + size
            if len(piece) < size:
                compared.append(Comparison(False, "nonfinite", float("inf")))
                continue
            floats = torch.frombuffer(bytearray(piece), dtype=torch.float32)
            compared.append(error_against(floats.view(tolerance.native.shape), tolerance))


def runtime_folder(path: Path | None) -> Path | None:
    """Return the folder of onnxruntime-web's files in its unpacked package, or in a folder that has it installed.

    Raises:
        MissingToolError: there is none.
    """
    if path is None:
        return None
    for place in (path, path / "dist", path / "node_modules" / "onnxruntime-web" / "dist"):
        if (place / _RUNTIME).exists():
            return place
    raise MissingToolError(
        f"no {_RUNTIME} in {str(path)!r}; expected onnxruntime-web: npm install onnxruntime-web"
    )


def _values(workload: Workload, case: Judged) -> dict[str, NDArray[np.float32]]:
    given = {
        s.name: _flat(a)
        for s, a in zip(workload.arguments, case.inputs, strict=True)
        if isinstance(a, torch.Tensor)
    }
    return given | {name: _flat(tensor) for name, tensor in case.state.items()}


def _flat(tensor: torch.Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().contiguous().flatten().numpy()
    return array


def _expected(truth: torch.Tensor, allowed: torch.Tensor | None) -> Expected:
    if allowed is None:
        raise InputError("an output is no floating-point tensor, which has no kernel for the web")
    return Expected(truth.double().flatten().numpy(), allowed.double().flatten().numpy())
