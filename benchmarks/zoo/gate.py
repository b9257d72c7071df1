"""Whether an optimised model of the zoo drifts: the patched model against the native one, by the native one's own noise.

    python -m benchmarks.zoo.gate benchmarks/zoo/science.py:physics_informed RUN --store DIR

The model is served its example and other inputs of the same sizes: numbers are drawn anew, tokens change places. The outcome
is `same`, `drifted` or `inconclusive`, as of `kernelwright drift`; the run's programs must have answered every call.
"""

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.models import load_model, patch
from kernelwright.models.drift import drift_of_calls

_CALLS, _DRAWS = 3, 12
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Judge one model, and print its row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("target")
    parser.add_argument("run")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--draws", type=int, default=_DRAWS, help="honest reorderings of the native model")
    asked = parser.parse_args(argv)
    print(json.dumps(drifted(asked.target, asked.run, asked.store, draws=asked.draws)))
    return 0


def drifted(target: str, run: str, store: Path | None, *, draws: int = _DRAWS) -> Row:
    """Return outcome and reason of the drift gate for a model that was optimised in a run.

    Args:
        target: The model, as it was optimised.
        run: The run in which it was judged.
        store: Folder of the run store.
        draws: Honest reorderings of the native model.
    """
    native, changed = load_model(target).whole, load_model(target).whole
    changed.load_state_dict(native.state_dict())
    inputs = [tuple(native.tensors), *(_drawn(native.tensors, seed) for seed in range(1, _CALLS))]
    try:
        with patch(changed.inner, run, store=store) as patched, torch.no_grad():
            changed(*inputs[0])  # the first call is native: it shows how the result is nested
            before = patched.native_calls
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", FutureWarning
                )  # torch's, where a copy holds how inputs are nested
                found = drift_of_calls(native, lambda *given: changed(*given), inputs, draws=draws)
            if patched.native_calls > before or not patched.calls:
                return {
                    "drift": "inconclusive",
                    "drift_reason": "the native model answered some of the calls",
                }
    except KernelwrightError as error:
        return {"drift": "inconclusive", "drift_reason": str(error)}
    return {"drift": found.outcome.value, "drift_reason": found.reason}


def _drawn(tensors: Sequence[torch.Tensor], seed: int) -> tuple[torch.Tensor, ...]:
    """Return other inputs of the same sizes, numbers as large and whole numbers as they occur."""
    random = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(t.shape, generator=random).to(t.dtype) * t.std() + t.mean()
        if t.is_floating_point() and t.numel() > 1
        else t.flatten()[torch.randperm(t.numel(), generator=random)].view(t.shape)
        for t in tensors
    )


if __name__ == "__main__":
    raise SystemExit(main())
