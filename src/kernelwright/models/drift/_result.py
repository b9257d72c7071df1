"""What a comparison found, as records."""

from enum import StrEnum

from ...records import Record
from ._cause import Cause
from ._layers import LayerError
from ._measures import Agreement, Generation
from ._paired import Paired
from ._sampler import SamplerDrift


class Outcome(StrEnum):
    """Whether a changed model is the native one but for rounding."""

    SAME = "same"
    """All errors are what the native model's own noise explains."""
    DRIFTED = "drifted"
    """An error is beyond what an honest evaluation reaches."""
    INCONCLUSIVE = "inconclusive"
    """An error lies between, or the native model's own noise is not known."""


class SceneDrift(Record):
    """Errors as served in one way, in units of the native model's noise at the same position."""

    scene: str
    """How requests were served."""
    largest: float
    """Largest error of a position."""
    overall: float
    """Root mean square over positions."""
    native: float
    """The same of the native model, served in this way."""
    excess: float
    """How many times the limit of drift the farther of the two is; above 1 it is drift."""
    request: int
    """Request of the largest error, from 0."""
    position: int
    """Position of the largest error in its request, from 0."""
    first: int
    """First position of any request beyond the limit; -1 if none."""
    beyond: float
    """Share of positions beyond the limit."""
    deterministic: bool
    """Whether a second run gave the same errors to the bit."""
    kernel_calls: int | None = None
    """Calls that the kernels of a patched model answered; None for a model that is not patched."""
    native_calls: int | None = None
    """Calls that the native model answered in their place."""


class Drift(Record):
    """What a comparison found.

    Covers: the requests that were served, as they were served: alone, through the cache, in a batch; the sampler.
    Does not cover: longer requests and other batches than these; tokens that no request has.
    """

    outcome: Outcome
    """Whether it drifted."""
    reason: str
    """Why."""
    dtype: str
    """The native model's dtype."""
    scenes: tuple[SceneDrift, ...]
    """Errors by the way requests are served."""
    limits: dict[str, float]
    """Largest and overall error beyond which a model has drifted, in units of noise."""
    noise: float
    """Root mean square error of honest evaluations, in units of the outputs'."""
    agreement: Agreement | None = None
    """Distributions of the next token; None for outputs that are no logits."""
    perplexity: Paired | None = None
    """Negative log likelihood of the requests' tokens, nats for each token."""
    generation: Generation | None = None
    """Greedy and sampled text."""
    sampler: SamplerDrift | None = None
    """What the samplers draw from the same logits; None where there is one sampler."""
    layers: tuple[LayerError, ...] = ()
    """Growth of errors over submodules."""
    cause: Cause | None = None
    """Where the drift comes from; None without a drift, or where models have no submodules."""
