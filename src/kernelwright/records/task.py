"""Task: a frozen problem. What is computed, on which workloads, under which contract."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from ._record import Record, Scalar

_EXECUTOR = "from kernelwright.executor"
"""What a reference imports to have its kernels executed."""


class Split(StrEnum):
    """Where a workload is used: in the search, by the judge before acceptance, by the judge at confirmation."""

    SEARCH = "search"
    HIDDEN = "hidden"
    CONFIRM = "confirm"


class Distribution(Record):
    """How the values of a tensor are drawn."""

    kind: Literal[
        "normal", "uniform", "integers", "bernoulli", "constant",
        "sorted", "offsets", "permutation", "probabilities", "triangular", "given",
    ] = "normal"  # fmt: skip
    """`integers` are drawn from [low, high); `sorted` ascends along the last axis; `offsets` ascend
    from 0 to `high` along it, which they reach; `probabilities`
    sum to one along the last axis; `triangular` is lower triangular in the last two axes; `given`
    means that only the task's own generator can make the values."""
    low: float = 0.0
    """Smallest value of `uniform` and `integers`; the value of `constant`."""
    high: float = 1.0
    """Upper end, exclusive, of `uniform` and `integers`."""
    scale: float = 1.0
    """Standard deviation of `normal` and `triangular`; probability of one of `bernoulli`."""


class TensorSpec(Record):
    """One tensor argument or result."""

    name: str
    """Its name in the reference's signature, or its key in the state dictionary."""
    shape: tuple[int, ...]
    """Sizes; `()` is a scalar tensor."""
    dtype: str
    """Torch's name without the prefix: `float32`, `bfloat16`, `int64` ..."""
    layout: Literal["contiguous", "transposed", "strided"] = "contiguous"
    """`transposed`: the last two axes swapped in memory; `strided`: every other element of a buffer
    twice as long in the last axis."""
    distribution: Distribution = Distribution()
    """How its values are drawn."""
    requires_grad: bool = False
    """Whether its gradient is a result (backward tasks)."""


class ScalarSpec(Record):
    """One argument that is not a tensor; the same in every call of a workload."""

    name: str
    """Its name in the reference's signature."""
    value: Scalar | tuple[Scalar, ...]
    """Its value."""


class Workload(Record):
    """One concrete instance of the task: sizes, dtypes, layouts and a value regime."""

    name: str
    """Readable name, unique within the task: `batch=4096,dim=1024`."""
    split: Split = Split.SEARCH
    """Where it is used."""
    axes: dict[str, int] = {}
    """The sizes that distinguish it. In the KernelBench form: the module constants set to these values."""
    arguments: tuple[TensorSpec | ScalarSpec, ...] = ()
    """The call's arguments, in the order of the reference's signature."""
    state: tuple[TensorSpec, ...] = ()
    """Parameters and buffers, in the order of the reference's state dictionary."""
    outputs: tuple[TensorSpec, ...] = ()
    """What the reference returns, flattened."""
    regime: str = "declared"
    """The value regime applied to the declared distributions (`tasks.regimes`)."""
    cotangents: int = 0
    """Backward tasks: how many of the last arguments are gradients of outputs. The gradients asked for are the
    last outputs, in the order of the arguments and state tensors that have `requires_grad`."""

    @property
    def forward(self) -> "Workload":
        """The forward part alone; the workload itself if the task is forward only."""
        if not self.cotangents:
            return self
        asked = sum(isinstance(s, TensorSpec) and s.requires_grad for s in (*self.arguments, *self.state))
        return self.model_copy(
            update={
                "arguments": self.arguments[: -self.cotangents],
                "outputs": self.outputs[: len(self.outputs) - asked],
                "cotangents": 0,
            }
        )


Numerics = Literal["strict", "native", "fast"]
NUMERICS: dict[Numerics, dict[str, float]] = {
    "strict": {"error_factor": 2.0, "error_floor": 4.0, "error_cap": 1e-3},
    "native": {"error_factor": 4.0, "error_floor": 8.0, "error_cap": 1e-2},
    "fast": {"error_factor": 16.0, "error_floor": 64.0, "error_cap": 1e-2},
}
"""Choices of how far a kernel may be off, by name, and the contract's fields that they are."""
ALLOWED: dict[str, str] = {
    "strict": "sums in another order and fused multiply-adds, with at most twice the native error",
    "native": "sums in any order, fused multiply-adds, functions off by two units in the last place",
    "fast": "besides, rough functions and fast transforms such as Winograd's with large tiles",
    "": "as the contract's own figures say",
}
"""What each lets a kernel do. None lets it compute in fewer bits than the task's dtypes: such errors are hundreds of
times larger, and are refused."""


class Contract(Record):
    """What a kernel may do, how accurate it must be, and the smallest gain that counts.

    Example:
        >>> Contract().numerics, Contract().under("fast").error_factor, Contract(error_factor=5.0).numerics
        ('native', 16.0, '')
    """

    calls: Literal["custom-only", "library-allowed", "anything"] = "anything"
    """What may compute the answer. `custom-only`: only kernels that the candidate launches; `library-allowed`: also
    torch operators that call a vendor's library (products, convolutions, transforms, solvers);
    `anything`: torch too. Allocating, filling and moving memory is always allowed."""
    least_effect: float = Field(default=0.02, ge=0.0)
    """Smallest gain that counts: the ratio's lower limit must exceed `1 + least_effect`."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1.0)
    """Confidence of the ratio's interval, two-sided."""
    error_factor: float = Field(default=4.0, ge=1.0)
    """The candidate's error may be this multiple of the native op's own error against float64."""
    error_floor: float = Field(default=8.0, ge=0.0)
    """Error always allowed, in units of the output dtype's epsilon times the output's scale."""
    error_cap: float = Field(default=1e-2, gt=0.0)
    """Cap on the error, relative to the output's scale, whatever the native op does."""
    start_up_s: float = Field(default=60.0, gt=0.0)
    """Longest time to a kernel's first answer in a fresh process: loading, `prepare` and the first call."""
    payback_calls: int = Field(default=100_000, ge=0)
    """Calls within which the gain must have paid for the kernel's slower start, compared with the baseline; a decision
    reports a number above that."""
    unusual_regime: Literal["caveat", "veto"] = "caveat"
    """What happens if the gain is lost under an unusual value regime at a searched size, with right answers: `caveat`:
    the claim sheet notes it if `regime_floor` of the native speed is kept; `veto`: the candidate is refused."""
    regime_floor: float = Field(default=0.5, gt=0.0, le=1.0)
    """Share of the native speed that an unusual value regime must keep for its slowness to be a caveat."""
    mutates: tuple[str, ...] = ()
    """Arguments and state that the reference changes in place; a candidate must change them in the same way."""
    may_alias: bool = False
    """Whether an output may share storage with an input (true if the reference's does)."""
    nan: Literal["match", "forbid"] = "match"
    """`match`: NaN and infinity are exactly where the reference has them; `forbid`: nowhere."""
    mode: Literal["eval", "train"] = "train"
    """Mode in which the reference module is called; that in which a file builds it, unless named."""
    stochastic: bool = False
    """Whether the reference draws random numbers."""
    backward: bool = False
    """Whether the task is forward and backward together, with gradients of outputs as arguments."""
    cache: Literal["auto", "warm", "cold"] = "auto"
    """Cache state of timed calls; `auto`: warm if a call's bytes fit in half the last-level cache."""

    @property
    def numerics(self) -> str:
        """Name of the choice that its figures are; empty if they are its own."""
        mine = {name: getattr(self, name) for name in NUMERICS["native"]}
        return next((name for name, figures in NUMERICS.items() if figures == mine), "")

    def under(self, numerics: Numerics) -> "Contract":
        """Return the contract with the figures of a choice."""
        return self.model_copy(update=NUMERICS[numerics])


class SourceFile(Record):
    """One file of text."""

    path: str
    """Relative path."""
    text: str
    """Its content."""


class Reference(Record):
    """The code that defines the correct result. The judge and the baselines run it; no candidate sees it."""

    files: tuple[SourceFile, ...]
    """Source files; the first holds the entry."""
    entry: str
    """`path:symbol`."""
    style: Literal["function", "module"]
    """`function`: called with the arguments; `module`: a class made with `init`, then called."""
    origin: str = ""
    """Path of the user's file, for messages."""

    @property
    def executed(self) -> bool:
        """Whether its kernels are those of a GPU, which it has executed on the CPU: no time of it means anything.

        Example:
            >>> text = "from kernelwright.executor.python import run_on_cpu"
            >>> Reference(files=(SourceFile(path="a.py", text=text),), entry="a.py:f", style="function").executed
            True
        """
        return any(_EXECUTOR in file.text for file in self.files)


class Task(Record):
    """A frozen problem."""

    name: str
    """Readable name; unique enough within a store."""
    form: Literal["kernelbench", "own", "definition", "existing"]
    """The form it was read from (`tasks.forms`)."""
    reference: Reference
    """Defines the correct result."""
    workloads: tuple[Workload, ...]
    """Workloads of all splits."""
    contract: Contract = Contract()
    """The contract for its kernels."""
    start: tuple[SourceFile, ...] = ()
    """An existing kernel to start from, if any."""
    notes: tuple[str, ...] = ()
    """What was changed while it was read, such as which constants were shrunk."""

    def split(self, split: Split) -> tuple[Workload, ...]:
        """Return the workloads of one split, in order."""
        return tuple(w for w in self.workloads if w.split is split)
