"""Two models → Drift: whether a changed model is still the native one, as deployed, and where it is not."""

from ._cause import Cause, find_cause
from ._decoder import Decoder, Deployment, Sampler
from ._drift import LENGTHS, STEPS, compare, drift, drift_of_calls
from ._exam import Noise, noise_of
from ._padded import Padded
from ._paired import Paired, paired
from ._result import Drift, Outcome, SceneDrift
from ._sampler import SamplerDrift, compare_samplers, top_p
from ._serve import Requests, Scene, own_text, serve
from ._target import load_deployment, load_requests

__all__ = [
    "LENGTHS",
    "STEPS",
    "Cause",
    "Decoder",
    "Deployment",
    "Drift",
    "Noise",
    "Outcome",
    "Padded",
    "Paired",
    "Requests",
    "Sampler",
    "SamplerDrift",
    "Scene",
    "SceneDrift",
    "compare",
    "compare_samplers",
    "drift",
    "drift_of_calls",
    "find_cause",
    "load_deployment",
    "load_requests",
    "noise_of",
    "own_text",
    "paired",
    "serve",
    "top_p",
]
