"""The backend of RISC-V with vectors: built by a cross compiler, run under qemu, cost by executed instructions.

Covers: programs that hang (killed at a deadline), that leave their tensors (each ends at a page without access), that
write inputs. The emulator may read the system and write its own folder only, where the kernel has Landlock.
Does not cover: reads before a tensor within its first page, uninitialised reads, what registers held, any time.
"""

import re
import shutil
import struct
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from ..errors import MissingToolError
from ..languages._process import Finished, run_tool
from ._assembler import AssemblyError
from ._riscv_places import Places, line_table
from ._riscv_text import check_text
from .backend import Ran
from .compiler import c_source
from .expression import measure
from .tasks import CraftTask, Workload

COMPILER, EMULATOR, READER = "riscv64-linux-gnu-gcc", "qemu-riscv64", "riscv64-linux-gnu-readelf"
FLAGS = (
    "-O3",
    "-march=rv64gcv",
    "-mabi=lp64d",
    "-fno-math-errno",
    "-fno-pic",
    "-fno-tree-loop-distribute-patterns",
)
"""How the baseline is compiled."""
_BUILD_S, _RUN_S = 60.0, 20.0
_UNWRITTEN = 0xA5A5A5A5
_ERROR = re.compile(r"kernel\.s:(\d+): (?:Error|Fatal error): (.*)")


class RiscV:
    """Runs programs under qemu in a temporary folder."""

    name = "riscv"
    """Its name."""
    unit = "instructions"
    """Costs are executed instructions, those of `expf` with them."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kernelwright-riscv-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._built = ""
        self._at: dict[int, int] = {}

    def missing(self) -> str:
        """Say which tool is missing."""
        how = "apt-get install gcc qemu-user gcc-riscv64-linux-gnu libc6-dev-riscv64-cross"
        lacking = [tool for tool in (COMPILER, EMULATOR, READER, "gcc") if shutil.which(tool) is None]
        return f"riscv needs {', '.join(lacking)}; {how}" if lacking else ""

    def manual(self) -> str:
        """Say what is taken; the instruction set itself is public."""
        return (
            "# RISC-V with vectors\n\nAssembly of RV64GCV for the GNU assembler: integers, float32 and float64, and "
            "the vector extension 1.0 (VLEN 128). Define `kernel`, which is called as a C function with one argument. "
            "Taken are computations, loads, stores, branches within the program, `ret`, and `call expf`; no system "
            "calls, control registers or macros. Data goes into `.section .rodata`. The cost is the number of executed "
            "instructions.\n"
        )

    def contract(self, task: CraftTask) -> str:
        """Say what the words at a0 are."""
        outside = [a for a in task.arrays if a.role != "temp"]
        words = [f"address of {a.name}, {a.rows} rows of {a.cols} float32" for a in outside]
        words += [f"address of a workspace of {task.work_words} float32", *task.sizes]
        return "a0 points to words of 64 bits: " + "; ".join(f"word {n} is {w}" for n, w in enumerate(words))

    def assemble(self, text: str) -> str:
        """Check, assemble and link a program."""
        check_text(text)
        self._need()
        if text != self._built:
            self._prepare()
            (self._folder / "kernel.s").write_text(text)
            done = self._tool(
                COMPILER,
                "-static",
                "-Wa,-g",
                *FLAGS,
                "harness.o",
                "kernel.s",
                "-o",
                "kernel.elf",
                "-lm",
                deadline_s=_BUILD_S,
            )
            if done.returncode or done.timed_out:
                found = [(int(m[1]), m[2]) for m in _ERROR.finditer(done.output)]
                raise AssemblyError(found or [(1, " ".join(done.output.split())[-400:])])
            listed = self._tool(READER, "--debug-dump=decodedline", "kernel.elf", deadline_s=_BUILD_S)
            self._at, self._built = line_table(listed.output), text
        return f"{(self._folder / 'kernel.elf').stat().st_size} bytes linked"

    def run(
        self, task: CraftTask, text: str, workload: Workload, *, most: int = 0, trace: range = range(0)
    ) -> Ran:
        """Run a program; `most` does not apply, a deadline does."""
        del most
        self.assemble(text)
        (self._folder / "input.bin").write_bytes(_input(task, workload))
        counts = []
        for word in ("skip", "call"):
            for name in ("count", "output.bin", "places", "fault", "lines", "steps"):
                (self._folder / name).unlink(missing_ok=True)
            done = self._tool(
                EMULATOR,
                "-cpu",
                "rv64,v=true,vlen=128",
                "-plugin",
                f"./count.so{self._watched(trace) if word == 'call' else ''}",
                "./kernel.elf",
                word,
                deadline_s=_RUN_S,
            )
            places = Places(self._folder, self._at, text, _outside(task, workload))
            steps = places.steps() if trace else ()
            if done.timed_out:
                said = f"the program did not end within {_RUN_S:g} s"
                return Ran(None, 0, said, "endless", trace=steps)
            if done.returncode:
                return Ran(None, 0, _stopped(done, places), "stopped", places.lines(), steps)
            counts.append(int((self._folder / "count").read_text()))
        data = (self._folder / "output.bin").read_bytes()
        unwritten = int((np.frombuffer(data, np.uint32) == _UNWRITTEN).sum())
        if unwritten:
            said = f"{unwritten} words of output {task.output.name} were never written"
            return Ran(None, 0, said, "uninitialised", places.lines(), steps)
        output = np.frombuffer(data, np.float32).reshape(workload.expected.shape)
        return Ran(output, counts[1] - counts[0], lines=places.lines(), trace=steps)

    def _watched(self, trace: range) -> str:
        """Return what the plugin is told: the program's addresses, and which steps to keep."""
        if not self._at:
            return ""
        return f",low={min(self._at)},high={max(self._at) + 4},first={trace.start},steps={len(trace)}"

    def programs(self, task: CraftTask) -> Mapping[str, str]:
        """Return what the C compiler makes of plain loops, and the program with vectors that this package has."""
        self._need()
        found = {"gcc -O3": _compiled(c_source(task.statements, task.arrays, task.most))}
        kept = files("kernelwright.craft").joinpath("native", "programs", f"{task.name}.s")
        if kept.is_file():
            found["by hand, with vectors"] = kept.read_text()
        return found

    def _prepare(self) -> None:
        """Build the harness and the plugin, once."""
        if (self._folder / "count.so").exists():
            return
        for name in ("harness.c", "count.c"):
            (self._folder / name).write_text(files("kernelwright.craft").joinpath("native", name).read_text())
        for command in (
            (COMPILER, "-O2", "-c", "harness.c", "-o", "harness.o"),
            ("gcc", "-O2", "-shared", "-fPIC", "count.c", "-o", "count.so"),
        ):
            done = self._tool(*command, deadline_s=_BUILD_S)
            if done.returncode:
                raise MissingToolError(f"{command[0]} could not build {command[-1]}: {done.output[-300:]}")

    def _tool(self, *command: str, deadline_s: float) -> Finished:
        return run_tool(command, deadline_s=deadline_s, folder=self._folder, closed=True)

    def _need(self) -> None:
        if missing := self.missing():
            raise MissingToolError(missing)


@cache
def _compiled(source: str) -> str:
    """Compile C to assembly."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-riscv-") as name:
        folder = Path(name)
        (folder / "kernel.c").write_text(source)
        done = run_tool(
            [COMPILER, *FLAGS, "-S", "kernel.c", "-o", "kernel.s"],
            deadline_s=_BUILD_S,
            folder=folder,
            closed=True,
        )
        if done.returncode:
            raise MissingToolError(f"{COMPILER} could not compile the baseline: {done.output[-300:]}")
        return (folder / "kernel.s").read_text()


def _input(task: CraftTask, workload: Workload) -> bytes:
    """Write a workload as the harness reads it."""
    outside = [a for a in task.arrays if a.role != "temp"]
    words = [measure(a.rows, workload.sizes) * measure(a.cols, workload.sizes) for a in outside]
    roles = [0 if a.role == "in" else 1 for a in outside]
    numbers = [len(outside) + 1, len(workload.sizes), *roles, 2, *words, task.work_words]
    data = b"".join(workload.inputs[a.name].tobytes() for a in outside if a.role == "in")
    return (
        struct.pack(f"<{len(numbers)}q", *numbers)
        + data
        + struct.pack(f"<{len(workload.sizes)}q", *workload.sizes.values())
    )


def _outside(task: CraftTask, workload: Workload) -> Sequence[tuple[str, int]]:
    """Return the names and bytes of what a program is lent, as the harness lists them; sizes have none."""
    sizes = workload.sizes
    lent = [
        (a.name, 4 * measure(a.rows, sizes) * measure(a.cols, sizes)) for a in task.arrays if a.role != "temp"
    ]
    return [
        *lent, ("the workspace", 4 * task.work_words), *((name, 0) for name in sizes),
        ("the arguments", 8 * (len(lent) + 1 + len(sizes))),
    ]  # fmt: skip


def _stopped(done: Finished, places: Places) -> str:
    code = done.returncode
    signal = -code if code < 0 else code - 128
    if signal in {4, 5, 7, 8, 11}:
        what = {
            4: "an instruction that does not exist, or that the vector settings forbid",
            11: "an access outside the tensors, or a write to an input",
        }
        line, address = places.fault()
        return f"{line}the program was stopped by signal {signal}: {what.get(signal, 'a fault')}{address}"
    return f"the program ended with code {code} in place of returning: {' '.join(done.output.split())[-200:]}"
