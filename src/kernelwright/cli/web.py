"""`kernelwright web`: a task's kernels made and tuned in a browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError
from ._common import Common, Taken, print_json, table, time_text

if TYPE_CHECKING:
    from ..api.web import Tuned
    from ..records import Task

Action = Literal["build", "tune", "serve"]
_NAMES = {
    "scalar": "the scalar build, kernels alone",
    "onnxruntime-web": "onnxruntime-web, a call with its copies",
}


def web(
    action: Action,
    target: str,
    *,
    to: Path | None = None,
    workload: str = "",
    seconds: float = 10.0,
    webgpu: bool = False,
    onnxruntime: Path | None = None,
    port: int = 0,
    taken: Taken | None = None,
    common: Common | None = None,
) -> int:
    """Make a task's kernels as WebAssembly in a browser, tune them there within seconds, and judge what it serves.

    The code is generated in the page for the task's sizes. Each kernel is checked against the contract; where none is
    faster, a scalar build stays.

    Args:
        action: `build` writes the page into a folder for any web server; `tune` opens it in a headless Chromium and
            collects what it found; `serve` serves it here, for any browser, until one has answered.
        target: The task, as for `optimize`: a function, a module or a model (`file.py:build`), with float32 tensors.
        to: Folder for `build`.
        workload: Search workload whose sizes the code is made for; the first by default.
        seconds: Seconds that tuning may take.
        webgpu: Try variants in WGSL too, where the browser has WebGPU.
        onnxruntime: Folder of onnxruntime-web as npm installs it, to be timed against the kernels.
        port: Port to serve on; any free one by default.
        taken: How the task is loaded.
        common: Flags of every command.
    """
    from ..api.web import build, on_web, runtime_folder, serve, tune

    common, runtime = common or Common(), runtime_folder(onnxruntime)
    if seconds <= 0:
        raise InputError(f"--seconds is {seconds}; expected more than 0")
    if action == "build" and to is None:
        raise InputError("--to is missing; name the folder for the page")
    made = on_web(_task(target, taken or Taken()), workload, webgpu=webgpu)
    if action == "build":
        assert to is not None
        build(made, to, budget_s=seconds)
        kinds = [step.kind for step in made.program.steps]
        if common.json:
            print_json("result", folder=str(to), kernels=list(kinds))
        else:
            print(f"{to}: a page of {len(kinds)} kernel(s): {', '.join(kinds)}")
            print(f"look at it: python3 -m http.server -d {to}")
        return 0
    if action == "tune":
        return _show(tune(made, budget_s=seconds, runtime=runtime), common)
    with serve(made, budget_s=seconds, runtime=runtime, port=port) as (server, tuned):
        if common.json:
            print_json("serving", url=server.url)
        else:
            print(f"open {server.url} in a browser", flush=True)
        tuned.report = dict(server.result(None) or {})
    return _show(tuned, common)


def _task(target: str, taken: Taken) -> "Task":
    """Return the task of a target; a model is one whole task."""
    from ..models import is_model, load_model
    from ..tasks.forms import kernelbench

    if not is_model(target):
        return taken.task(target)
    loaded = load_model(target)
    if loaded.text is None:
        raise InputError(f"{target!r} is made in memory alone; name file.py:build")
    place = loaded.origin.with_name(f"{loaded.name}_whole.py")
    task = kernelbench.load(place, loaded.text, max_elements=taken.max_elements, contract=None)
    return taken.task(loaded.judged(task))


def _show(tuned: "Tuned", common: Common) -> int:
    found: dict[str, Any] = tuned.report
    if common.json:
        print_json("result", **{**found, "ok": tuned.ok, "fresh_error": tuned.error})
    elif "rows" not in found:
        print(f"failed in the browser: {found.get('message', 'no reason given')}")
    else:
        rows = [_row(row) for row in found["rows"]]
        table(rows, empty="no kernel: the results are the inputs")
        for name, ratio in found["ratios"].items():
            print(f"{ratio:.2f} times as fast as {_NAMES.get(name, name)}")
        if webgpu := found.get("webgpu"):
            print(_gpu(webgpu))
        right = "right" if tuned.ok else "wrong"
        answers = sum(map(len, tuned.comparisons.values()))
        print(f"{right} on {answers} fresh answers, tuned in {found['seconds']:.1f} s")
    return 0 if tuned.ok else 1


def _gpu(found: dict[str, Any]) -> str:
    best, software = found["best"], found["software"]
    state = "executed on a software adapter, so not timed" if software else "timed"
    time = f", {time_text(best['us'])}" if best and not software else ""
    served = f"one serves{time}" if best else "none is right"
    return (
        f"WebGPU ({found['adapter']}, {state}): {found['tried']} tried, {len(found['wrong'])} wrong, {served}"
    )


def _row(row: dict[str, Any]) -> dict[str, str]:
    config = " ".join(f"{name}={value}" for name, value in (row["config"] or {}).items())
    return {
        "kernel": row["kind"], "configuration": config or "scalar build",
        "tried": "known" if row.get("cached") else f"{row['tried']} of {row['space']}",
        "scalar": time_text(row["scalar_us"]), "tuned": time_text(row["us"]),
        "speedup": f"{row['scalar_us'] / row['us']:.2f}x" if row["us"] else "",
    }  # fmt: skip
