"""FastKernels' rules: an operator at every place of its architecture, then the model that it is in.

Covers: rounds of fresh inputs, the share of results that has to agree, weights by name; the model's output, by `drift`.
Does not cover: captured shapes, its checks for tampering, generated text, a device's events.

Source: Snowflake-AI-Research/fastkernels, fastkernels/bench.py.
"""

import functools
import sys
import types
from typing import Any

import torch

from .clock import mean_us

_SHARE, _ABSOLUTE, _WARM_UP = 0.99, 1e-5, 10


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, rounds passed and mean times of the model in microseconds.

    `given` has `reference` and `submission` (texts), the `names` of the operator's classes, `seed`, `trials`, `timed`,
    `tolerance` and `globals`.
    """
    native, changed = _space("kw_zoo", given), _space("kw_changed", given)
    found: dict[str, Any] = {"passed": 0, "trials": given["trials"]}
    torch.manual_seed(given["seed"])
    reference = native["Model"]()
    places = [p for p, m in reference.named_modules() if type(m).__name__ in given["names"]]
    try:
        mine: dict[str, Any] = dict(given["globals"])
        exec(given["submission"], mine)
        changed.update({name: mine[name] for name in given["names"] if name in mine})
        model = changed["Model"]()
        model.load_state_dict(reference.state_dict(), strict=False)
        with torch.no_grad():
            for _ in range(given["trials"]):
                if said := _round(reference, model, places, native["get_inputs"](), given["tolerance"]):
                    return found | {"status": "wrong", "message": said}
                found["passed"] += 1
            inputs = native["get_inputs"]()
            if said := _drifted(reference, model, inputs):
                return found | {"passed": given["trials"] - 1, "status": "wrong", "message": said}
            times = [
                mean_us(functools.partial(m, *inputs), given["timed"], _WARM_UP) for m in (reference, model)
            ]
    except Exception as error:  # noqa: BLE001  the benchmark counts any as a failure
        return found | {"status": "error", "message": f"{type(error).__name__}: {error}"}
    return found | {"status": "correct", "reference_us": times[0], "time_us": times[1]}


def _space(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Run the problem's file as a module, which data classes ask for."""
    sys.modules[name] = module = types.ModuleType(name)
    exec(given["reference"], module.__dict__)
    return module.__dict__


def _round(reference: Any, model: Any, places: list[str], inputs: list[Any], tolerance: float) -> str:
    """Say which place differs on fresh inputs; empty if none."""
    seen: dict[str, tuple[Any, Any]] = {}
    hooks = [
        reference.get_submodule(p).register_forward_hook(
            lambda _, args, out, p=p: seen.__setitem__(p, (args, out))
        )
        for p in places
    ]
    try:
        reference(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    for place, (arguments, right) in seen.items():
        try:
            operator = model.get_submodule(place)
        except AttributeError:
            continue  # inside of what was replaced
        if not _same(operator(*arguments), right, tolerance):
            return f"{place} differs"
    return ""


def _drifted(reference: Any, model: Any, inputs: list[Any]) -> str:
    """Say how the whole model departs from the native one beyond its own rounding; empty if it does not."""
    from kernelwright.models.drift import Outcome, drift_of_calls

    found = drift_of_calls(reference, model, [tuple(inputs)])
    return f"the model drifts: {found.reason}" if found.outcome is Outcome.DRIFTED else ""


def _same(output: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(expected, (tuple, list)):
        return len(output) == len(expected) and all(
            _same(o, e, tolerance) for o, e in zip(output, expected, strict=True)
        )
    if not isinstance(expected, torch.Tensor):
        return True
    if output.shape != expected.shape or output.dtype != expected.dtype:
        return False
    near = (output - expected).abs() <= _ABSOLUTE + tolerance * expected.abs()
    return bool(near.float().mean() >= _SHARE)
