"""robust-kbench: own tasks with forward and backward, and KernelBench's first levels in a functional form.

Source: Lange et al., Towards Robust Agentic CUDA Kernel Benchmarking, Verification, and Optimization, arXiv 2509.14279.
"""

import ast
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import TaskError
from ..records import Candidate, Split, Task, TensorSpec, Workload
from ._modules import ModuleForm, copied
from ._protocol import Script
from ._records import Rules, SuiteProblem
from ._robust_questions import questions_of
from ._submission import Submission, submission_of
from ._verifiers import Question

_FOLDER = "tasks"
_FILTER = "robust_kbench/filter/forward.py"
_SAID = {"redundant": "filter_llm_redundancy", "inefficient": "filter_llm_inefficiency"}
_FORM = """

_known = KNOWN


class ModelNew(Model):
    def forward(self, *arguments, **named):
        weights, given = self.state_dict(keep_vars=True), (*arguments, *named.values())
        shapes = tuple(tuple(t.shape) for t in (*given, *weights.values()) if hasattr(t, "shape"))
        if shapes not in _known:
            return super().forward(*arguments, **named)
        return found_kernel(given, weights)
"""


class RobustKBench(ModuleForm):
    """The adapter of robust-kbench."""

    name, program = "robust-kbench", "robust_kbench"
    title = "robust-kbench: forward and backward passes with random weights, and KernelBench's levels 1 and 2"
    repository = "SakanaAI/robust-kbench"
    commit = "078f5bab29934a822268d59a4e707d449abf9b4e"
    layout = (f"{_FOLDER}/layernorm", f"{_FOLDER}/kernelbench", "robust_kbench")
    rules = Rules(
        correctness="allclose at 1e-5 on 5 draws under public seeds, twice each: the kernel runs before the reference "
        "and again after it, on new modules; of a backward pass all gradients",
        timing="mean of 10,000 calls on one draw after 25 warm-up calls",
        score="speedup over eager and torch.compile",
        trials=5, tolerance=1e-5, timed=100, seed=42,
        here="a kernel is a Python file with `ModelNew`, or `backward_fn` for a backward pass, since the benchmark's "
        "own form is CUDA; a task's first single configuration is searched and timed, and by its rules a kernel has to "
        "be right in each of its several, too, shrunk alike; 100 timed calls by the host's clock; of its filters of "
        "tasks, those by outputs are computed, and what its language model said is taken from the checkout; `--model` "
        "asks again, and has the kernel read by its three verifiers, in our words",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the forward pass of every task, and the backward pass of those that have one."""
        found = []
        for file in sorted((data / _FOLDER).rglob("func_*.py"), key=_order):
            task, kind = file.parent.relative_to(data / _FOLDER), file.stem.removeprefix("func_")
            found.append(
                SuiteProblem(
                    suite=self.name, name=f"{task.as_posix().removeprefix('kernelbench/')}/{kind}",
                    group=task.parts[1] if len(task.parts) > 1 else kind, file=file.relative_to(data).as_posix(),
                    backward=kind == "backward",
                )
            )  # fmt: skip
        return tuple(found)

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Copy the file, with the sizes and options of its configuration as constants."""
        path = copied(data, problem, folder)
        path.write_text(configured(path.read_text(), _configuration(data, problem), problem.name))
        return path

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return a `ModelNew` that calls the kernel at its sizes, and at others the reference.

        A kernel for both passes together has no form here.
        """
        if task.contract.backward:
            return None
        shapes = {_shapes(w) for w in (*task.split(Split.SEARCH), *task.split(Split.CONFIRM))}
        return submission_of(task, candidate, _FORM.replace("KNOWN", repr(shapes)))

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its evaluation on the task's sizes, and in its several settings."""
        script = super().script(task, candidate, data, problem)
        if script is None:
            return None
        given = _configuration(data, problem)
        asked = settings_of(given, shrunk_by(given, str(script.given["reference"])))
        return replace(script, given={**script.given, "settings": asked, "said": _said(data, problem)})

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: what it screens are tasks."""
        del candidate
        return ()

    def questions(self, data: Path, problem: SuiteProblem, kernel: str) -> tuple[Question, ...]:
        """Return its filter's question on the task, in the checkout's words, and those of its three verifiers."""
        return questions_of(data / _FILTER, (data / problem.file).read_text(), kernel)


def _said(data: Path, problem: SuiteProblem) -> list[str]:
    """Return what the benchmark's language model said of a task, as the checkout has it."""
    file = (data / problem.file).with_name("filter_results.json")
    found = json.loads(file.read_text()) if file.is_file() else {}
    return [f"filter: {name}" for name, field in _SAID.items() if found.get(field)]


def settings_of(
    configurations: Mapping[str, Sequence[Mapping[str, Any]]], by: Mapping[str, float]
) -> list[dict[str, dict[str, Any]]]:
    """Return a task's several settings, every initialisation with every input, as the benchmark combines them.

    Args:
        configurations: Its `config_forward.json` or `config_backward.json`.
        by: What sizes are multiplied by, by name, where the task was shrunk.

    Example:
        >>> given = {"multi_input_configs": [{"rows": 8}, {"rows": 2}], "multi_init_configs": [{"init": "random"}]}
        >>> [one["inputs"] for one in settings_of(given, {"rows": 0.25})]
        [{'rows': 2}, {'rows': 1}]
    """
    inputs, inits, shared = (
        configurations.get(f"multi_{kind}_configs") or [{}] for kind in ("input", "init", "shared")
    )
    found = [
        {"inputs": _times({**given, **both}, by), "init": _times({**init, **both}, by)}
        for init, given, both in itertools.product(inits, inputs, shared)
    ]
    return found if len(found) > 1 else []


def _times(values: Mapping[str, Any], by: Mapping[str, float]) -> dict[str, Any]:
    return {k: max(1, round(v * by[k])) if type(v) is int and k in by else v for k, v in values.items()}


def shrunk_by(configurations: Mapping[str, Sequence[Mapping[str, Any]]], text: str) -> dict[str, float]:
    """Return what the sizes of a task's text are of those of its first configuration, by name."""
    first = {
        k: v
        for kind in ("input", "init", "shared")
        for k, v in _first(configurations, f"single_{kind}_configs").items()
    }
    found = {}
    for name, value in first.items():
        constant = re.search(rf"^{re.escape(name)} = (\d+)$", text, re.MULTILINE)
        if type(value) is int and value and constant:
            found[name] = int(constant[1]) / value
    return found


def _shapes(workload: Workload) -> tuple[tuple[int, ...], ...]:
    return tuple(s.shape for s in (*workload.arguments, *workload.state) if isinstance(s, TensorSpec))


def _configuration(data: Path, problem: SuiteProblem) -> dict[str, Any]:
    source = data / problem.file
    file = source.with_name(source.name.replace("func_", "config_")).with_suffix(".json")
    if not file.is_file():
        raise TaskError(f"{problem.name} has no {file.name} in this checkout")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def configured(text: str, configurations: Mapping[str, Sequence[Mapping[str, Any]]], name: str) -> str:
    """Return a task's file in KernelBench's form, at its first single configuration.

    Raises:
        TaskError: the file lacks a function, or the configuration an argument.

    Example:
        >>> text = "class Model: ...\\ndef get_inputs(batch=1): ..."
        >>> told = configured(text, {"single_input_configs": [{"batch": 4}]}, "t")
        >>> print(told.partition("kw_draw = get_inputs")[2])
        <BLANKLINE>
        batch = 4
        <BLANKLINE>
        <BLANKLINE>
        def get_inputs():
            return kw_draw(batch=batch)
        <BLANKLINE>
        <BLANKLINE>
        def get_init_inputs():
            return []
        <BLANKLINE>
    """
    tree = ast.parse(text)
    draws = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "get_inputs"), None)
    model = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    if draws is None or model is None:
        raise TaskError(f"{name} lacks `Model` or `get_inputs`")
    shared = _first(configurations, "single_shared_configs")
    inputs, init = (_first(configurations, f"single_{what}_configs") | shared for what in ("input", "init"))
    taken = {k: v for k, v in inputs.items() if k in _parameters(draws)}
    makes = next((n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    wanted = _parameters(makes) if makes else {}
    missing = [k for k, default in wanted.items() if default is None and k not in init]
    if missing:
        raise TaskError(f"the configuration of {name} has no {missing[0]!r}, which its model takes")
    sizes = {k: v for k, v in (inputs | init).items() if type(v) is int and (k in taken or k in wanted)}

    def said(key: str, value: Any) -> str:
        return key if sizes.get(key) == value and key in sizes else repr(value)

    arguments = ", ".join(f"{k}={said(k, v)}" for k, v in taken.items())
    made = ", ".join(said(k, init[k]) if k in init else str(default) for k, default in wanted.items())
    constants = "".join(f"{k} = {v}\n" for k, v in sizes.items())
    return (
        f"{text}\n\nkw_draw = get_inputs\n{constants}\n\ndef get_inputs():\n    return kw_draw({arguments})\n"
        f"\n\ndef get_init_inputs():\n    return [{made}]\n"
    )


def _first(configurations: Mapping[str, Sequence[Mapping[str, Any]]], name: str) -> dict[str, Any]:
    return dict((configurations.get(name) or [{}])[0])


def _parameters(function: ast.FunctionDef) -> dict[str, str | None]:
    """Return a function's parameters but `self`, with the text of their defaults; None where there is none."""
    given = function.args.args
    defaults: list[ast.expr | None] = [None] * (len(given) - len(function.args.defaults)) + list(
        function.args.defaults
    )
    return {
        a.arg: None if d is None else ast.unparse(d)
        for a, d in zip(given, defaults, strict=True)
        if a.arg != "self"
    }


def _order(file: Path) -> tuple[object, ...]:
    """Order by folder, tasks by number, forward before backward."""
    task = file.parent.name
    number = int(task.removeprefix("task_")) if task.removeprefix("task_").isdigit() else 0
    return (file.parent.parent.as_posix(), number, task, file.stem != "func_forward")
