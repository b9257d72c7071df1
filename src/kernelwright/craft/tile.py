"""The backend of the tile accelerator and of the instruction sets made up from seeds."""

from collections.abc import Mapping

from ..errors import InputError
from ._assembler import assemble
from ._description import Description
from ._manual import manual
from ._memory import Region
from ._simulator import Execution, Limits, simulate
from .backend import Ran
from .compiler import compile_task, plans
from .expression import measure
from .tasks import CraftTask, Workload, find_task


class TileBackend:
    """Runs programs of a description in the simulator."""

    unit = "cycles"
    """Costs are cycles of the model."""

    def __init__(self, description: Description) -> None:
        self.description = description
        """The instruction set."""
        self.name = description.name
        """Its name."""

    def missing(self) -> str:
        """Nothing is: the simulator is part of this package."""
        return ""

    def manual(self) -> str:
        """Return the manual, with a plain program at its end."""
        task = find_task("relu")
        return manual(
            self.description, compile_task(task.statements, task.arrays, task.most, self.description)
        )

    def contract(self, task: CraftTask) -> str:
        """Say what the first scalar registers hold."""
        outside = [a for a in task.arrays if a.role != "temp"]
        words = [f"address of {a.name}, {a.rows} rows of {a.cols}" for a in outside]
        words += [f"address of a workspace of {task.work_words} words", *task.sizes]
        return "; ".join(f"{self.description.register('s', n)} = {w}" for n, w in enumerate(words))

    def assemble(self, text: str) -> str:
        """Assemble a program, and return its length."""
        program = assemble(text, self.description)
        return f"{len(program.instructions)} instructions, {len(program.encode())} bytes"

    def run(
        self, task: CraftTask, text: str, workload: Workload, *, most: int = 0, trace: range = range(0)
    ) -> Ran:
        """Run a program in the simulator."""
        program = assemble(text, self.description)
        limits = Limits(steps=most) if most else Limits()
        done = simulate(
            program, _regions(task, workload), list(workload.sizes.values()), limits=limits, trace=trace
        )
        shape = workload.expected.shape
        steps: tuple[dict[str, str | int], ...] = tuple(
            {
                "step": s.number,
                "cycle": s.cycle,
                "line": s.line,
                "text": s.text,
                "waited": s.stall,
                "wrote": s.result,
            }
            for s in done.trace
        )
        output = None if done.fault else done.outputs[task.output.name].reshape(shape)
        fault, kind = (done.fault.message, done.fault.kind) if done.fault else ("", "")
        return Ran(output, done.cycles, fault, kind, _lines(done), steps)

    def programs(self, task: CraftTask) -> Mapping[str, str]:
        """Return what the compiler makes under each of its plans, the naive one first."""
        found: dict[str, str] = {}
        for plan in plans():
            try:
                text = compile_task(task.statements, task.arrays, task.most, self.description, plan)
            except InputError:
                continue  # this plan needs more registers or room than there is
            if text.partition("\n")[2] not in {t.partition("\n")[2] for t in found.values()}:
                found[str(plan)] = text
        return found


def _regions(task: CraftTask, workload: Workload) -> list[Region]:
    found = []
    for a in task.arrays:
        words = measure(a.rows, workload.sizes) * measure(a.cols, workload.sizes)
        if a.role == "in":
            found.append(Region(a.name, "in", words, workload.inputs[a.name].reshape(-1)))
        elif a.role == "out":
            found.append(Region(a.name, "out", words))
    return [*found, Region("the workspace", "work", task.work_words)]


def _lines(done: Execution) -> dict[int, dict[str, int]]:
    return {line: {"issued": count, **done.stalls.get(line, {})} for line, count in done.issues.items()}
