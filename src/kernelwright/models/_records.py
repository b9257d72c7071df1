"""What is kept of optimising a model."""

import json
from typing import Literal

from ..records import SCHEMA_VERSION, DecisionStatus, Interval, Numerics, Record

MODEL_RESULT = "model"
"""Under which the store keeps results of models."""
MODEL_PLAN = "model-plan"
"""Under which it keeps their plans, by the same origin."""
MODEL_DRIFT = "model-drift"
"""Under which it keeps how they drift, by their run."""
SIZED_RESULT = "model-sizes"
"""Under which the store keeps results of models at several sizes."""

Sampler = Literal["bernoulli_", "uniform_", "normal_", "random_", "exponential_"]
"""Methods of a tensor that fill it with random numbers."""


class RegionOutcome(Record):
    """What came of one region."""

    region: str
    """Hash of its computation."""
    label: str
    """What its first use is called."""
    uses: int
    """How often it occurs."""
    runs: tuple[str, ...]
    """Its runs in the store."""
    speedup: float | None
    """Of the accepted kernel over the faster native form, alone; none where nothing was accepted."""
    expected_us: float
    """Microseconds of the model that it was expected to save."""
    kept: bool
    """Whether it is part of the model's result."""
    reason: str
    """Why it is not; empty where it is."""


class DynamoForm(Record):
    """The one graph that Dynamo makes of a model, and what of the model its tensors are."""

    graph: str
    """Hash of its operators, constants, shapes and dtypes."""
    tensors: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and dtype of each tensor that it takes, in order of first use."""
    inputs: tuple[int, ...]
    """Which of those each input of the model is; -1 where the graph does not read it."""
    weights: tuple[int, ...]
    """Which of those each of the model's weights is, likewise."""
    constants: dict[int, str]
    """The rest, such as buffers that no state dictionary holds: hash of the contents."""
    results: tuple[int, ...]
    """Which tensor of the model's result each result of the graph is."""


class Identity(Record):
    """What a judged model's answers depend on apart from its state dictionary."""

    tensors: dict[str, str] = {}
    """Tensors outside the state dictionary that it reads, by name: hash of the contents."""
    graph: str = ""
    """Hash of its graph; empty where that breaks."""
    torch: str = ""
    """The torch that made the graph: another one may write the same model in other operators."""


class Drawn(Record):
    """Random numbers that torch draws ahead of each call of a training step."""

    sampler: Sampler
    """The method of a tensor that fills it: `bernoulli_`, `uniform_`, `normal_` ..."""
    arguments: tuple[bool | int | float, ...]
    """Its arguments."""
    shape: tuple[int, ...]
    """Sizes of the tensor."""
    dtype: str
    """Its dtype."""


class StepForm(Record):
    """What a training step takes and returns besides its inputs, its weights, the loss and the gradients."""

    drawn: tuple[Drawn, ...] = ()
    """Random numbers, taken between inputs and weights."""
    loss: int = 0
    """Place of the loss among the tensors of the model's result."""
    others: int = 0
    """How many more tensors the model returns; they follow the gradients, and no gradient goes through them."""
    changed: tuple[str, ...] = ()
    """Buffers that a step changes, such as running statistics; their new values are the last results."""
    unused: tuple[str, ...] = ()
    """Parameters that may want a gradient and get none, because the loss does not depend on them."""


class StepsOutcome(Record):
    """What came of whole training steps: forward, backward and an optimizer."""

    optimizer: str
    """Name of the optimizer."""
    decision: DecisionStatus
    """`improved` if steps with the accepted program, if any, and the patched optimizer are faster and as right."""
    speedup: Interval
    """Over the better of eager torch and torch.compile, with torch's own optimizer in its fastest form."""
    baseline: str
    """Which of both that is."""
    step_us: dict[str, float]
    """Median microseconds of a step, of each way."""
    reason: str = ""
    """Why it is not improved; empty if it is."""

    @property
    def improved(self) -> bool:
        """Whether to patch the optimizer, too."""
        return self.decision is DecisionStatus.IMPROVED


class StepProgram(Record):
    """One way to compute forward and backward of a training step: time and memory."""

    what: str
    """`eager`, `compile`, or who proposed a program and what it is."""
    speedup: float | None
    """Of a program that was right, over the best native form; none of that itself."""
    peak_bytes: int | None
    """By how many bytes a call makes a process grow at most, gradients included; none where that is not known."""
    kept: bool = False
    """Whether it is the accepted program."""


class ModelResult(Record):
    """The outcome of optimising a model: the verdict on the whole, and what came of each region."""

    schema_version: int = SCHEMA_VERSION
    """Version of the records."""
    model: str
    """The model's name."""
    device: str
    """Fingerprint of the device."""
    run: str
    """The run in which the whole model was judged, for `show`, `report` and `export`; empty where it was not."""
    decision: DecisionStatus
    """`improved` if the patched model may replace the native one."""
    speedup: Interval | None
    """Of the patched model over the best native form; where none was accepted, of the best that was timed, whose
    interval may lack its ends; none where nothing was timed."""
    baseline: str
    """The best native form."""
    eager_speedup: float | None
    """Of the same over eager torch."""
    expected: tuple[float, float, float]
    """What was expected over eager torch, by the pilot where there was one, else by the plan: low, expected, high."""
    pilot: float | None = None
    """Part of eager torch's time that the first programs took before the search; none where none was timed."""
    regions: tuple[RegionOutcome, ...]
    """What came of each region that was tried."""
    weights: tuple[str, ...] = ()
    """The model's parameters and buffers, in the order in which the patched model takes them."""
    trained: tuple[str, ...] = ()
    """For a training step, the parameters that get a gradient, in the order of its results; empty otherwise."""
    step: StepForm = StepForm()
    """For a training step, what else it takes and returns."""
    steps: StepsOutcome | None = None
    """Of whole steps with an optimizer, where one was named."""
    programs: tuple[StepProgram, ...] = ()
    """For a training step, the native forms and then the programs that were timed, the fastest first."""
    call: str = ""
    """How the inputs of a verified call are nested, and all in them that is no tensor."""
    identity: Identity | None = None
    """What its answers depend on apart from its state dictionary; none in results of earlier versions."""
    dynamo: DynamoForm | None = None
    """How `torch.compile(backend="kernelwright")` knows the model; none where its graph breaks."""
    pieces: bool = False
    """Whether its graph breaks, and kernels serve regions of the pieces in between, by torch.compile."""
    numerics: Numerics | None = None
    """How far it may be off, where that was chosen."""
    reason: str = ""
    """Why nothing better was found; empty if something was."""
    ended: str = ""
    """Why the search ended; empty in results of earlier versions."""
    seconds: float = 0.0
    """Seconds that it took."""

    @property
    def improved(self) -> bool:
        """Whether there is something to install."""
        return self.decision is DecisionStatus.IMPROVED

    @property
    def origin(self) -> str:
        """What names it in the store: its run, or the model where that was not judged."""
        return self.run or self.model

    def line(self) -> str:
        """Return the result as one line of JSON."""
        return json.dumps({"event": "result", **self.model_dump(mode="json")})


class SizedOutcome(Record):
    """What came of a model at one of several sizes."""

    sizes: dict[str, int]
    """The sizes, by name."""
    weight: float
    """Share of the calls."""
    eager_us: float
    """Microseconds of a call in eager torch."""
    result: ModelResult
    """The verdict at these sizes; its programs serve these and no others."""

    @property
    def native_us(self) -> float:
        """Microseconds of a call in the best native form; in eager torch where nothing was accepted."""
        found = self.result
        if not found.improved or found.speedup is None or not found.eager_speedup:
            return self.eager_us
        return self.eager_us * found.speedup.median / found.eager_speedup

    def ratio(self, end: str) -> float:
        """Return an end of the interval of its speedup: `low`, `median`, `high`; 1 where it stays native."""
        if not self.result.improved or self.result.speedup is None:
            return 1.0
        return float(getattr(self.result.speedup, end) or self.result.speedup.median)


class SizedResult(Record):
    """The outcome of optimising a model at several sizes."""

    schema_version: int = SCHEMA_VERSION
    """Version of the records."""
    model: str
    """The model's name."""
    decision: DecisionStatus
    """`improved` if the calls take less time together; none is slower."""
    speedup: Interval
    """Of all calls together, each workload by its weight, over the best native form of each."""
    outcomes: tuple[SizedOutcome, ...]
    """What came of each workload."""
    reason: str = ""
    """Why it is not improved; empty if it is."""
    seconds: float = 0.0
    """Seconds that it took."""

    @property
    def improved(self) -> bool:
        """Whether there is something to install."""
        return self.decision is DecisionStatus.IMPROVED

    @property
    def origin(self) -> str:
        """What names it in the store: the runs that it is made of, or the model."""
        return " ".join(one.result.run for one in self.outcomes if one.result.run) or self.model

    def line(self) -> str:
        """Return the result as one line of JSON."""
        return json.dumps({"event": "result", **self.model_dump(mode="json")})
