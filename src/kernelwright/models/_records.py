"""What is kept of optimising a model."""

import json

from ..records import SCHEMA_VERSION, DecisionStatus, Interval, Record

MODEL_RESULT = "model"
"""Under which the store keeps results of models."""


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
    """Of the patched model over the best native form; none where it was not timed."""
    baseline: str
    """The best native form."""
    eager_speedup: float | None
    """Of the patched model over eager torch."""
    expected: tuple[float, float, float]
    """What the plan expected over eager torch with these regions: low, expected, high."""
    regions: tuple[RegionOutcome, ...]
    """What came of each region that was tried."""
    weights: tuple[str, ...] = ()
    """The model's parameters and buffers, in the order in which the patched model takes them."""
    trained: tuple[str, ...] = ()
    """For a training step, the parameters that get a gradient, in the order of its results; empty otherwise."""
    call: str = ""
    """How the inputs of a verified call are nested, and all in them that is no tensor."""
    identity: Identity | None = None
    """What its answers depend on apart from its state dictionary; none in results of earlier versions."""
    dynamo: DynamoForm | None = None
    """How `torch.compile(backend="kernelwright")` knows the model; none where its graph breaks."""
    reason: str = ""
    """Why nothing better was found; empty if something was."""
    seconds: float = 0.0
    """Seconds that it took."""

    @property
    def improved(self) -> bool:
        """Whether there is something to install."""
        return self.decision is DecisionStatus.IMPROVED

    def line(self) -> str:
        """Return the result as one line of JSON."""
        return json.dumps({"event": "result", **self.model_dump(mode="json")})
