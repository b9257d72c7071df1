"""Entry of a worker that computes a benchmark's verdict: `run() -> (SIZE,) uint8`, JSON padded with spaces.

The kernel runs in the same process, as the benchmarks have it; so what this reports is worth what such reports are.
"""

import json

import torch

SIZE = 8192

try:
    from given import GIVEN  # type: ignore[import-not-found]
    from verdict import verdict  # type: ignore[import-not-found]
except ModuleNotFoundError:  # outside a worker, where only SIZE is read
    GIVEN = verdict = None


def run() -> torch.Tensor:
    """Return the verdict's JSON."""
    given = json.loads(GIVEN)
    answer = verdict(given | {"globals": {k: v for k, v in globals().items() if k == "kernels"}})
    answer["message"] = str(answer.get("message", ""))[:2000]
    text = json.dumps(answer).encode()[:SIZE].ljust(SIZE)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).to(given["device"])
