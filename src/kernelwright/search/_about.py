"""What a run says of itself, enough to repeat it and to know what its figures hold for."""

import platform
import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from pydantic import JsonValue

from ..devices import Device
from ..records import Run, Task
from .recipe import SETTING, recipe_of
from .tuners import DEFAULT_TUNER


def opening(task: Task, run: Run, device: Device) -> dict[str, JsonValue]:
    """Say what a run sets out to do."""
    languages = run.options.get("languages", ())
    return {
        "task": task.name,
        "device": device.name,
        "languages": [str(name) for name in languages] if isinstance(languages, tuple) else [],
        "notes": list(task.notes),
        "environment": dict(environment(device)),
        "reproduce": reproduce(task, run),
    }


def environment(device: Device) -> dict[str, str]:
    """Say what the figures of a run hold for."""
    return {
        "device": f"{device.name}, {device.cores} cores ({device.fingerprint})",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": version("torch"),
        "kernelwright": version("kernelwright"),
    }


def environment_of(events: Sequence[Mapping[str, JsonValue]]) -> dict[str, str]:
    """Return what a run's log says its figures hold for, with the layers that shut its candidates in.

    Example:
        >>> environment_of([{"event": "run", "environment": {"torch": "2.13"}},
        ...                 {"event": "isolation", "layers": ["rlimits", "seccomp"]}])
        {'torch': '2.13', 'isolation': 'rlimits, seccomp'}
    """
    found: dict[str, str] = {}
    for event in events:
        match event:
            case {"event": "run", "environment": {**about}}:
                found |= {str(name): str(value) for name, value in about.items()}
            case {"event": "isolation", "layers": [*layers]}:
                found["isolation"] = ", ".join(map(str, layers))
    return found


def reproduce(task: Task, run: Run) -> str:
    """Return the command that repeats a run."""
    target = task.reference.origin or task.name
    if "judged" in run.options:
        return shlex.join(["kernelwright", "judge", target, "CANDIDATE"])
    words = ["kernelwright", "optimize", target, "--seed", str(run.seed)]
    for name, usual in (("device", ""), ("tuner", DEFAULT_TUNER)):
        if str(run.options.get(name, usual)) != usual:
            words += [f"--{name}", str(run.options[name])]
    words += ["--backward"] if task.contract.backward else []
    for name in ("languages", "proposers", "baselines", "editors", "models", "prices"):
        chosen = run.options.get(name, ())
        for value in chosen if isinstance(chosen, tuple) else ():
            words += [f"--{name[:-1]}", str(value)]
    if run.options.get("agent"):
        words += ["--agent", str(run.options["agent"])]
    if run.options.get("strategy"):
        words += ["--strategy", str(run.options["strategy"])]
    if recipe := recipe_of(run):
        words += ["--recipe", recipe.name]
    else:
        for name in (name for name in run.options if name.startswith(SETTING)):
            words += ["--set", f"{name.removeprefix(SETTING)}={run.options[name]}"]
    if not run.options.get("learn", True):
        words.append("--no-learn")
    for flag in ("evaluations", "minutes", "device_seconds"):
        limit = getattr(run.budget, flag)
        if limit is not None:
            words += [f"--{flag.replace('_', '-')}", f"{limit:g}"]
    if run.budget.usd is not None:
        words += ["--usd", f"{run.budget.usd:g}"]
    if run.options.get("note"):
        words += ["--note", str(run.options["note"])]
    if run.options.get("max_elements"):
        words += ["--max-elements", str(run.options["max_elements"])]
    if task.contract.calls != "anything":
        words += ["--calls", task.contract.calls]
    return shlex.join(words)
