"""Metadata of a run: how to reproduce it, and for which environment its figures hold."""

import platform
import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from pydantic import JsonValue

from ...devices import Device
from ...records import Run, Task
from ...sandbox import PROMISES, promises
from ..recipe import SETTING, recipe_of
from ..tuners import DEFAULT_TUNER


def opening(task: Task, run: Run, device: Device) -> dict[str, JsonValue]:
    """Return the data of a run's first event: task, options, device."""
    languages = run.options.get("languages", ())
    return {
        "task": task.name,
        "device": device.name,
        "target": device.target,
        "languages": [str(name) for name in languages] if isinstance(languages, tuple) else [],
        "notes": list(task.notes),
        "environment": dict(environment(device)),
        "reproduce": reproduce(task, run),
    }


def environment(device: Device) -> dict[str, str]:
    """Return the environment for which a run's figures hold."""
    return {
        "device": f"{device.name}, {device.cores} cores ({device.fingerprint})",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": version("torch"),
        "kernelwright": version("kernelwright"),
        "microcode": _microcode(),
    }


def _microcode() -> str:
    """Return the revision of the processor's microcode, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "not known"
    return next(
        (line.rpartition(":")[2].strip() for line in lines if line.startswith("microcode")), "not known"
    )


def environment_of(events: Sequence[Mapping[str, JsonValue]]) -> dict[str, str]:
    """Return the environment recorded in a run's log, with the sandbox layers around its candidates.

    Example:
        >>> environment_of([{"event": "run", "environment": {"torch": "2.13"}},
        ...                 {"event": "isolation", "layers": ["rlimits", "seccomp"]}])["sandbox promises"]
        'memory is bounded'
    """
    found: dict[str, str] = {}
    for event in events:
        match event:
            case {"event": "run", "environment": {**environment}}:
                found |= {str(name): str(value) for name, value in environment.items()}
            case {"event": "isolation", "layers": [*layers]}:
                names = [str(layer) for layer in layers]
                kept = promises(names)
                found["isolation"] = ", ".join(names)
                found["sandbox promises"] = "; ".join(kept)
                found["sandbox does not promise"] = "; ".join(p for p in PROMISES if p not in kept) or "-"
    return found


def reproduce(task: Task, run: Run) -> str:
    """Return the command that repeats a run."""
    taken = [*_taken(task, run), *_each(run, "baselines")]
    if "judged" in run.options:
        return shlex.join(["kernelwright", "judge", _target(task), "CANDIDATE", *taken])
    words = ["kernelwright", "optimize", _target(task), "--seed", str(run.seed), *taken]
    if str(run.options.get("tuner", DEFAULT_TUNER)) != DEFAULT_TUNER:
        words += ["--tuner", str(run.options["tuner"])]
    for name in ("languages", "proposers", "editors", "models", "prices"):
        words += _each(run, name)
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
    if "counters" in run.options:
        words.append("--counters" if run.options["counters"] else "--no-counters")
    for flag in ("evaluations", "minutes", "search_minutes", "device_seconds"):
        limit = getattr(run.budget, flag)
        if limit is not None:
            words += [f"--{flag.replace('_', '-')}", f"{limit:g}"]
    if run.budget.usd is not None:
        words += ["--usd", f"{run.budget.usd:g}"]
    if run.options.get("note"):
        words += ["--note", str(run.options["note"])]
    return shlex.join(words)


def _target(task: Task) -> str:
    """Return the target that names a task: its file, and for the own form also its function, one of several there."""
    reference = task.reference
    own = reference.style == "function" and Path(reference.origin).suffix == ".py"
    return f"{reference.origin}:{task.name}" if own else reference.origin or task.name


def _taken(task: Task, run: Run) -> list[str]:
    """Return the flags that describe how a task was loaded from its target."""
    words = ["--backward"] if task.contract.backward else []
    if task.start:
        shipped = Path(task.reference.origin).parent / task.start[0].path
        words += ["--kernel", str(run.options.get("kernel", shipped))]
    if task.contract.numerics in ("strict", "fast"):
        words += ["--numerics", task.contract.numerics]
    for name in ("device", "max_elements"):
        if run.options.get(name):
            words += [f"--{name.replace('_', '-')}", str(run.options[name])]
    words += _each(run, "fixed")
    return words + (["--calls", task.contract.calls] if task.contract.calls != "anything" else [])


def _each(run: Run, name: str) -> list[str]:
    """Return the flag of an option that is a list of names, once per name."""
    chosen = run.options.get(name, ())
    flag = f"--{name.removesuffix('s')}"
    return [word for value in chosen for word in (flag, str(value))] if isinstance(chosen, tuple) else []
