"""The tools of the loop over one task: write, assemble, run, trace, measure, submit.

Each returns plain data, and wrong programs are answers, not errors.
"""

from collections.abc import Callable
from typing import Any

from ._assembler import AssemblyError
from .backend import Backend
from .judging import CraftVerdict, difference, judge
from .tasks import CraftTask, draw

Answer = dict[str, Any]
"""What a tool says; `ok` is whether all is well so far."""
_MOST_STEPS_SHOWN = 200
_LINES_SHOWN = 12


class Session:
    """A program under way for one task.

    Example:
        >>> from kernelwright.craft import find_backend, find_task
        >>> session = Session(find_task("copy"), find_backend("tessera"))
        >>> session.write("halt")["ok"], session.run()["message"]
        (True, 'line 1: 1000 of 1000 words of output out were never written, the first is 0')
    """

    def __init__(self, task: CraftTask, backend: Backend, *, seed: int = 0) -> None:
        self.task = task
        """What is to be computed."""
        self.backend = backend
        """For which instruction set."""
        self.text = ""
        """The program as it was written last."""
        self.best: CraftVerdict | None = None
        """The best verdict of a submission."""
        self.best_text = ""
        """The program with the best verdict."""
        self._seed = seed
        self._shown = draw(task, seed)

    @property
    def tools(self) -> dict[str, Callable[..., Answer]]:
        """The tools by name."""
        return {
            "write": self.write, "assemble": self.assemble, "run": self.run, "trace": self.trace,
            "measure": self.measure, "submit": self.submit,
        }  # fmt: skip

    def write(self, text: str) -> Answer:
        """Take a whole program in place of the last one, and assemble it."""
        self.text = text
        return self.assemble()

    def assemble(self) -> Answer:
        """Assemble the program; every error names its line."""
        try:
            return {"ok": True, "message": self.backend.assemble(self.text)}
        except AssemblyError as error:
            return {"ok": False, "message": str(error), "errors": [list(e) for e in error.errors]}

    def run(self, seed: int = 1) -> Answer:
        """Run the program on the visible sizes, with inputs of that seed, and compare the result."""
        assembled = self.assemble()
        if not assembled["ok"]:
            return assembled
        workload = draw(self.task, seed)
        ran = self.backend.run(self.task, self.text, workload)
        if ran.output is None:
            return {"ok": False, "message": ran.fault, "kind": ran.kind}
        wrong = difference(self.task, workload, ran.output)
        message = wrong or f"right on {_sizes(workload.sizes)}"
        return {"ok": not wrong, "message": message, self.backend.unit: ran.cost}

    def trace(self, start: int = 0, count: int = 40) -> Answer:
        """Show executed instructions: cycle, line, what each waited for, and what it wrote."""
        assembled = self.assemble()
        if not assembled["ok"]:
            return assembled
        kept = range(max(0, start), max(0, start) + min(max(1, count), _MOST_STEPS_SHOWN))
        ran = self.backend.run(self.task, self.text, self._shown, trace=kept)
        return {"ok": not ran.fault, "message": ran.fault or f"{len(ran.trace)} steps", "steps": [*ran.trace]}

    def measure(self) -> Answer:
        """Say what the program costs on the visible workload against the baseline, and which lines cost most."""
        assembled = self.assemble()
        if not assembled["ok"]:
            return assembled
        ran = self.backend.run(self.task, self.text, self._shown)
        if ran.output is None:
            return {"ok": False, "message": ran.fault, "kind": ran.kind}
        text = next(iter(self.backend.programs(self.task).values()))
        baseline = self.backend.run(self.task, text, self._shown).cost
        return {
            "ok": True, "message": f"{ran.cost} {self.backend.unit}; the baseline takes {baseline}",
            self.backend.unit: ran.cost, "baseline": baseline, "ratio": baseline / ran.cost,
            "lines": self._lines(ran.lines),
        }  # fmt: skip

    def submit(self) -> Answer:
        """Judge the program on hidden sizes and inputs; the score counts."""
        verdict = judge(self.task, self.backend, self.text, seed=self._seed)
        if verdict.score is not None and (self.best is None or verdict.score > (self.best.score or 0)):
            self.best, self.best_text = verdict, self.text
        return {
            "ok": verdict.status == "right", "message": verdict.message, "status": verdict.status,
            "score": verdict.score, self.backend.unit: verdict.cost, "baseline": verdict.baseline,
        }  # fmt: skip

    def _lines(self, costs: Any) -> list[Answer]:
        source = self.text.splitlines()
        ranked = sorted(costs.items(), key=lambda item: -sum(item[1].values()))[:_LINES_SHOWN]
        return [{"line": n, "text": source[n - 1].strip(), **causes} for n, causes in ranked]


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items())
