"""What crosses the boundary between the judge and a worker, as the judge sees it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from torch import Tensor

from ..records import Build, Candidate, Scalar, ScalarSpec, Task, TensorSpec, Workload


class FailureKind(StrEnum):
    """Why a worker could not answer."""

    CRASHED = "crashed"
    """The process ended: a signal, `os._exit`, a closed channel."""
    TIMEOUT = "timeout"
    """No answer before the deadline."""
    PROTOCOL = "protocol"
    """An answer that is malformed, unexpected or too large."""
    OUT_OF_MEMORY = "out-of-memory"
    """The memory limit was met."""
    ERROR = "error"
    """The candidate raised, or its state does not fit; the worker lives on."""
    UNSUPPORTED = "unsupported"
    """The candidate declared that it does not serve this case; the worker lives on."""


class WorkerFailure(Exception):
    """What a worker did instead of answering: data for the judge, raised by every operation.

    Example:
        >>> WorkerFailure(FailureKind.TIMEOUT, "no answer to call within 2 s").alive
        False
    """

    def __init__(self, kind: FailureKind, message: str, output: str = "") -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        """The kind."""
        self.message = message
        """One sentence, at most 500 characters."""
        self.output = output
        """The end of what the worker printed, for people; never evidence."""

    @property
    def alive(self) -> bool:
        """Whether the worker can still be used."""
        return self.kind in {FailureKind.ERROR, FailureKind.UNSUPPORTED}


DRIVERS = frozenset({"opencl", "wgsl"})
"""Languages whose work a driver may do elsewhere, while the worker sleeps."""


@dataclass(frozen=True)
class Gradient:
    """Which gradients a backward task asks for."""

    forward: int
    """How many of the arguments are the forward's; the gradients of the outputs follow."""
    cotangents: int
    """How many gradients of outputs there are."""
    arguments: tuple[int, ...]
    """Positions of the arguments that get a gradient."""
    state: tuple[tuple[int, str], ...]
    """Positions and names of the state tensors that get one."""

    @classmethod
    def of(cls, workload: Workload) -> "Gradient | None":
        """Read it off a workload; none where the task is forward only."""
        if not workload.cotangents:
            return None
        forward = workload.forward
        return cls(
            len(forward.arguments),
            workload.cotangents,
            tuple(
                i for i, s in enumerate(forward.arguments) if isinstance(s, TensorSpec) and s.requires_grad
            ),
            tuple((i, s.name) for i, s in enumerate(forward.state) if s.requires_grad),
        )


@dataclass(frozen=True)
class Payload:
    """What a worker is to hold: one candidate, or a baseline."""

    candidate: Candidate
    """What to load."""
    artefact: str | None = None
    """Folder of the built files, if the language builds; readable in the worker."""
    init: tuple[object, ...] = ()
    """Arguments of a `module` candidate's class: JSON values (lists, numbers, strings, none)."""
    arguments: tuple[TensorSpec | ScalarSpec, ...] = ()
    """Arguments of a `module` candidate's first workload, from which its lazy layers take their sizes."""
    outputs: tuple[TensorSpec, ...] = ()
    """The results' specs on the first workload."""
    device: str = "cpu"
    """`cpu` or `cuda:N`."""
    mode: Literal["eval", "train"] = "eval"
    """The mode of a module."""
    gradient: Gradient | None = None
    """What is asked for in addition to the outputs; none for forward tasks."""
    deployed: bool = False
    """Whether its surroundings look like somebody's program instead of the judge's worker."""
    executed: bool = False
    """Whether its kernels' PTX is executed under the sanitiser, for languages whose `executes` says yes."""
    counted: bool = False
    """Whether what is executed is counted too, so that `Worker.modelled` has something to model."""
    watched: bool = False
    """Whether to look at what its calls are made of; such a worker is never timed."""
    alone: "OperatorIsolation | None" = None
    """Which of torch's operators are spoilt once it is loaded; all are as they are by default."""
    trusted: bool = False
    """A baseline of our own that may keep a compile cache on disk; never a candidate."""

    @classmethod
    def of(
        cls,
        task: Task,
        workload: Workload,
        candidate: Candidate,
        build: Build,
        *,
        init: Callable[[Workload], Sequence[object]],
        device: str,
    ) -> "Payload":
        """Return what a worker needs to call a built candidate as the task's workload does.

        Args:
            task: Whose contract says which mode modules are in.
            workload: Whose outputs and gradients are asked for.
            candidate: What to load.
            build: What came of building it.
            init: Says what the task's module is made with on a workload; only a `module` candidate needs it.
            device: `cpu` or `cuda:N`.
        """
        return cls(
            candidate=candidate,
            artefact=build.artefact,
            init=tuple(init(workload)) if candidate.style == "module" else (),
            arguments=workload.forward.arguments if candidate.style == "module" else (),
            outputs=workload.outputs,
            device=device,
            mode=task.contract.mode,
            gradient=Gradient.of(workload),
        )


@dataclass(frozen=True)
class OperatorIsolation:
    """Which of torch's operators a worker does without."""

    spared: tuple[str, ...]
    """Names, without overloads, of those that stay as they are; views do too."""
    library: tuple[str, ...]
    """Names of those that stay together with all that they call."""
    kinds: tuple[str, ...]
    """What the names of more such begin with."""
    least: float
    """Elements that an operator must touch to be spoilt."""


WatchMode = Literal["see", "spoil", "refuse"]
"""What a watched worker does at launches: note them; also spoil what they write; refuse them."""


@dataclass(frozen=True)
class Seen:
    """What the last call of a watched worker was made of."""

    operators: dict[str, int]
    """Torch's operators by name, views left out, with the most elements that one of them touched. Reported inside."""
    launches: int
    """Launches of the candidate's own kernels. Reported inside."""
    libraries: tuple[str, ...]
    """Libraries mapped since before loading, what was built of it left out: file names of those that are installed,
    whole paths of what the worker wrote itself. Measured outside."""


@dataclass(frozen=True)
class Slot:
    """A tensor's place in an arena."""

    arena: int
    """Number of the arena, unique in the process."""
    offset: int
    """Bytes from the arena's start to the storage's first byte."""
    nbytes: int
    """Bytes of storage, gaps between strided elements included."""
    shape: tuple[int, ...]
    """Sizes."""
    strides: tuple[int, ...]
    """Strides in elements."""
    dtype: str
    """Torch's name without the prefix."""


Argument = Slot | Scalar | Sequence["Argument"]
"""One argument of a call: a tensor in an arena, a scalar, or a list of them."""


@dataclass(frozen=True)
class Loaded:
    """Proof of what a worker loaded."""

    content: str
    """The candidate's key, computed in the worker before the candidate's code ran."""
    symbol: str
    """The entry that is called."""
    setup_us: float
    """Microseconds to load it, by the judge's clock."""
    prepares: bool = False
    """Whether it declares `prepare`. Reported inside."""
    seed: int = 0
    """Torch's seed as the module was made, so that the judge can make the problem's own under the same."""
    state: tuple[tuple[str, tuple[int, ...], str], ...] = ()
    """Name, sizes and dtype of a module's parameters and buffers as it was made. Reported inside."""


@dataclass(frozen=True)
class Reply:
    """One timed request. Every figure but `device_us` is measured by the judge from outside."""

    time_us: float
    """Microseconds from sending `go` to the reply, all calls together."""
    cpu_us: float
    """CPU microseconds of the worker's process, all its threads, in the same span."""
    threads: int
    """Threads of the worker's process just after the reply."""
    first: int = 0
    """Index of this request's first call among those kept, for `fetch`."""
    device_us: float = 0.0
    """Microseconds by the GPU's clock, all streams and calls together, as the worker says; 0 on a CPU."""
    held: "Held | None" = None
    """What the judge's hold on a GPU showed before and after the calls; none where it had none."""


@dataclass(frozen=True)
class Held:
    """What the judge saw of a GPU while the worker was stopped."""

    taken_us: float
    """Microseconds for which something else had the device, from before inputs were written until the clock started."""
    left_us: float
    """Microseconds after the reply until the judge had the device, and for which something else had it then."""


@dataclass(frozen=True)
class OutputFact:
    """What the worker reports of one output; the judge decides what it means."""

    plain: bool
    """Whether it is exactly a `torch.Tensor` with no attributes of its own."""
    kind: str
    """Its type's name."""
    shape: tuple[int, ...]
    """Sizes."""
    strides: tuple[int, ...]
    """Strides in elements."""
    dtype: str
    """Torch's name without the prefix."""
    device: str
    """`cpu`, `cuda:0` ..."""
    requires_grad: bool
    """Whether it asks for a gradient."""
    aliases: tuple[int, ...]
    """Positions of the arguments whose storage it shares; state tensors follow the arguments."""
    shares: tuple[int, ...]
    """Positions of earlier outputs of the same call whose bytes it overlaps."""


@dataclass(frozen=True)
class Fetched:
    """The outputs of one call, copied out."""

    outputs: tuple[Tensor, ...]
    """Contiguous copies owned by the judge, made from raw bytes."""
    facts: tuple[OutputFact, ...]
    """One for each output."""
    time_us: float
    """Microseconds of the hand-over, by the judge's clock; deferred work shows here."""
    frozen: bool = False
    """Whether the bytes were read from the stopped process: nothing can have been computed after the reply."""
    cpu_us: float = 0.0
    """CPU microseconds of the worker's process for it, all its threads; deferred work shows on a busy machine too."""


@dataclass(frozen=True)
class Audit:
    """The state of a worker's process; compare one taken before with one taken after."""

    threads: int
    """Threads. Measured outside."""
    processes: int
    """Processes descended from the worker. Measured outside."""
    descriptors: tuple[str, ...]
    """What its open descriptors point at, sorted. Measured outside."""
    cpu_us: float
    """CPU microseconds since its start. Measured outside."""
    rss_bytes: int
    """Resident bytes. Measured outside."""
    flags: tuple[str, ...] = ()
    """Global switches thrown since before loading: default dtype, TF32, matmul precision ... Reported inside."""
    patched: tuple[str, ...] = ()
    """Names in watched modules that no longer are what they were before loading. Reported inside."""
    environment: tuple[str, ...] = ()
    """Environment variables changed since loading. Reported inside."""
    folder: str = ""
    """Working folder. Reported inside."""
