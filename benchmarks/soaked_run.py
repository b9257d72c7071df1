"""One run of the real program on a planted task, judge and language, with a fault planted at one of its stages.

    python -m benchmarks.soaked_run STAGE:KIND:NTH ARGUMENT ...

The fault comes from here, so that the product holds no hook for it. `benchmarks.soak` calls this.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from kernelwright import flow
from kernelwright.cli import main
from kernelwright.devices import Device, Peaks
from kernelwright.errors import StoreError, WorkerError
from kernelwright.propose import Proposal, Request
from kernelwright.search.proposals import _proposals
from kernelwright.search.session import _choices, _packaging, _search
from kernelwright.store import Store
from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate

STAGES = (
    "load", "profile", "bound", "open", "propose", "build", "screen", "vet", "accept", "package", "learn", "event",
    "save", "finish",
)  # fmt: skip
"""Where a fault can be planted, in the order that a run comes by."""
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU", "SIGKILL")
ERRORS: dict[str, Callable[[], BaseException]] = {
    "error": lambda: RuntimeError("as planted"),
    "memory": lambda: MemoryError("as planted"),
    "exit": lambda: SystemExit(7),
    "worker": lambda: WorkerError("no worker starts, as planted"),
    "disk": lambda: OSError(28, "No space left on device", "/planted"),
    "store": lambda: StoreError("the store is full, as planted"),
    "recursion": lambda: RecursionError("as planted"),
}
KINDS = (*SIGNALS, *ERRORS)
"""What can be planted: a signal to the process, or something raised."""

_SCREEN_S = 0.2


class _Proposer:
    """Proposes three candidates of which the second is best."""

    name = "planted"

    def propose(self, request: Request) -> Iterator[Proposal]:
        """Yield the candidates."""
        del request
        yield from map(planted_candidate, (80.0, 40.0, 60.0))


def plant_world() -> tuple[PlantedJudge, PlantedLanguage, _Proposer]:
    """Put a planted judge, language and proposer into the flow."""
    judge, language, proposer = PlantedJudge(screen_s=_SCREEN_S), PlantedLanguage(), _Proposer()

    @contextmanager
    def opened(*_: object) -> Iterator[PlantedJudge]:
        yield judge

    def packaged(task: object, run: object, accepted: object, folder: Path, about: object) -> Path:
        del task, run, accepted, about
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def peaks(device: Device) -> Peaks:
        return Peaks(device=device.fingerprint, values={})

    for module in (_choices, _search):
        module.__dict__["get_language"] = lambda _: language
    for module in (_choices, _proposals):
        module.__dict__["make_proposers"] = lambda _: [proposer]
    flow.__dict__.update(open_judge=opened, peaks_of=peaks)
    _packaging.__dict__["package_accepted"] = packaged
    return judge, language, proposer


def plant_fault(stage: str, kind: str, nth: int) -> None:
    """Plant the world with a fault in it: at the `nth` time that the stage is come by, counted from 0."""
    judge, language, proposer = plant_world()
    import kernelwright.tasks as tasks

    owner, name = {
        "load": (tasks, "load_task"), "profile": (flow, "profile"), "bound": (flow, "bound"),
        "open": (flow, "open_judge"), "propose": (proposer, "propose"), "build": (language, "build"),
        "screen": (judge, "screen"), "vet": (judge, "vet"), "accept": (judge, "accept"),
        "package": (_packaging, "package_accepted"), "learn": (flow, "learn_from"),
        "event": (Store, "append_event"), "save": (Store, "save_evaluation"), "finish": (Store, "finish_run"),
    }[stage]  # fmt: skip
    setattr(owner, name, _faulty(getattr(owner, name), kind, nth))


def _faulty(real: Callable[..., Any], kind: str, nth: int) -> Callable[..., Any]:
    calls = count()

    def faulty(*arguments: Any, **named: Any) -> Any:
        if next(calls) == nth:
            if kind in SIGNALS:
                os.kill(os.getpid(), signal.Signals[kind])
            else:
                raise ERRORS[kind]()
        return real(*arguments, **named)

    return faulty


def run(fault: str, arguments: Sequence[str]) -> int:
    """Run the program with a fault, or with none where it is `none`."""
    if fault == "none":
        plant_world()
    else:
        stage, kind, nth = fault.split(":")
        plant_fault(stage, kind, int(nth))
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
