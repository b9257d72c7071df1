"""A planted problem in the layout of each benchmark whose rules are emulated, and a `ModelNew` in the form of each.

The problem is one operator on (32, 4096) float32 between 0 and 1, which is what most of these benchmarks draw.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from kernelwright.suites import Suite, SuiteProblem, get_suite
from kernelwright.testing import made_up_checkout

OPERATORS = {
    "softmax": "torch.softmax(x, -1)",
    "rms_norm": "x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)",
    "tanh": "torch.tanh(x)",
}
"""Expressions of `x: (rows, columns) float32`."""
_IN_ALL = ("softmax", "rms_norm")
"""Operators of benchmarks whose problems say what is computed; the others have overloads of aten operators."""
_ROWS, _COLUMNS = 32, 4096
_MODEL = f"""import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return $operator


rows, columns = {_ROWS}, {_COLUMNS}


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return []
"""
_FUNCTIONAL = """import torch
import torch.nn as nn


def forward_fn(x):
    return $operator


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=1, columns=1):
    return [torch.rand(rows, columns)]


input_names = ["x"]
"""
_SIZES = f'{{"single_input_configs": [{{"rows": {_ROWS}, "columns": {_COLUMNS}}}]}}\n'
_TASK = f"""files:
  - {{"name": "submission.py", "source": "@SUBMISSION@"}}
  - {{"name": "reference.py", "source": "reference.py"}}
  - {{"name": "eval.py", "source": "../eval.py"}}
tests:
  - {{"rows": 8, "columns": 512, "seed": 1}}
  - {{"rows": 16, "columns": 1024, "seed": 2}}
  - {{"rows": {_ROWS}, "columns": {_COLUMNS}, "seed": 3}}
benchmarks:
  - {{"rows": {_ROWS}, "columns": {_COLUMNS}, "seed": 4}}
ranked_timeout: 60
"""
_CHECKED = """import torch


def generate_input(rows, columns, seed):
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    return torch.rand(rows, columns, device="cuda", generator=gen)


def ref_kernel(x):
    return $operator


def check_implementation(data, output):
    expected = ref_kernel(data)
    if expected.shape != output.shape:
        return "another shape"
    return "" if torch.allclose(output, expected, rtol=1e-3, atol=1e-3) else "mismatch"
"""
_DEFINITION = f"""{{"name": "planted", "op_type": "planted",
 "axes": {{"rows": {{"type": "var"}}, "columns": {{"type": "const", "value": {_COLUMNS}}}}},
 "inputs": {{"x": {{"shape": ["rows", "columns"], "dtype": "float32"}}}},
 "outputs": {{"y": {{"shape": ["rows", "columns"], "dtype": "float32"}}}},
 "reference": "import torch\\n\\ndef run(x):\\n    return $operator\\n"}}
"""
_SEEN = (
    f'{{"definition": "planted", "workload": {{"uuid": "a", "axes": {{"rows": {_ROWS}}}, "inputs": {{}}}}}}\n'
)
_TESTED = f"""import torch


def planted_rows(x):
    return $operator


##################################################################


import torch


def test_planted_rows():
    results = {{"first": planted_rows(torch.rand({_ROWS}, {_COLUMNS}, device="cuda"))}}
    return results


test_results = test_planted_rows()
"""
_LISTED = _TESTED.replace("#" * 66, "#" * 146)
"""As KernelBench-X has it."""
_RECORDED = f"""Operator: aten._softmax.default
cnt: 1, ((T([{_ROWS}, {_COLUMNS}], f32), -1, False), {{}})
"""
_MANIFEST = "tolerance:\n  torch.float32: 1.0e-4\nforbidden: []\n"
_SET_UP = f"""import torch


def setup_planted(input):
    return torch.rand({_ROWS}, {_COLUMNS}), lambda x: $operator
"""
_CALLED = """

planted_kernel = ModelNew()


def {name}(x, *_):
    return planted_kernel(x)
"""


@dataclass(frozen=True)
class Form:
    """A benchmark's layout, its form of kernels, and what a cheat knows of its rules."""

    files: Mapping[str, str]
    """The planted problem's files, with `$operator`."""
    compared: int
    """How many calls of one kernel are compared before it is timed."""
    seed: int = 0
    """The public seed."""
    function: str = ""
    """The function that a kernel is; empty where it is `ModelNew` itself."""
    cheats: tuple[str, ...] = field(default=())
    """Folders of cheats that work by its rules alone."""
    one_size: bool = False
    """Whether a problem has one size alone, so that a kernel for that size is no cheat."""
    operators: tuple[str, ...] = _IN_ALL
    """What can be planted."""
    problem: tuple[str, str] | None = None
    """Name and file of a problem whose name does not say that it is planted."""


FORMS = {
    "kernelbench": Form({"KernelBench/level1/90_Planted.py": _MODEL}, 5, 42, cheats=("modules",)),
    "multikernelbench": Form({"reference/activation/planted.py": _MODEL}, 5, 1024, cheats=("modules",)),
    "robust-kbench": Form(
        {"tasks/planted/func_forward.py": _FUNCTIONAL, "tasks/planted/config_forward.json": _SIZES},
        2, 42, cheats=("modules",),
    ),
    "agentkernelarena": Form(
        {
            "tasks/torch2hip/made/1_Planted/config.yaml": "task_type: torch2hip\n",
            "tasks/torch2hip/made/1_Planted/pytorch_code_module/py_1_Planted.py": _MODEL.replace("Model(", "Planted("),
        },
        1, 1337, cheats=("modules",),
    ),
    "reference-kernels": Form(
        {"problems/pmpp_v2/planted/task.yml": _TASK, "problems/pmpp_v2/planted/reference.py": _CHECKED},
        3, function="custom_kernel", cheats=("reference-kernels",),
    ),
    "flashinfer-bench": Form(
        {"definitions/planted/planted.json": _DEFINITION, "workloads/planted/planted.jsonl": _SEEN},
        3, function="run", cheats=("flashinfer-bench",),
    ),
    "tritonbench": Form(
        {"data/TritonBench_T_v1/planted_rows.py": _TESTED}, 1, function="planted_rows", cheats=("tritonbench",),
        one_size=True,
    ),
    "kernelbench-x": Form(
        {"data/kernelbenchx/Reduce/planted_rows.py": _LISTED}, 1, function="planted_rows", cheats=("tritonbench",),
        one_size=True,
    ),
    "sol-execbench": Form(
        {"examples/planted/planted/definition.json": _DEFINITION, "examples/planted/planted/workload.jsonl": _SEEN},
        10, 200, function="run", cheats=("flashinfer-bench",),
    ),
    "tritonbench-meta": Form(
        {
            "tritonbench/operator_loader/aten/config.yaml": "aten._softmax.default: planted/calls.txt\n",
            "tritonbench/data/input_configs/planted/calls.txt": _RECORDED,
        },
        1, function="aten__softmax_default", cheats=("tritonbench",), operators=("softmax",),
        problem=("aten__softmax_default", "tritonbench/data/input_configs/planted/calls.txt"),
    ),
    "kernelbench-v3": Form({"benchmarks/v3/problems/level1/90_Planted.py": _MODEL}, 5, 42, cheats=("modules",)),
    "kernelbench-hard": Form(
        {
            "benchmarks/hard/problems-h100/90_planted/reference.py": _MODEL,
            "benchmarks/hard/problems-h100/90_planted/problem.yaml": _MANIFEST,
        },
        3, 42, cheats=("modules",),
    ),
    "liger": Form(
        {"benchmark/scripts/benchmark_planted.py": _SET_UP}, 1, 42, cheats=("modules",), one_size=True,
    ),
    "backendbench-traced": Form(
        {"traces/planted.txt": _RECORDED}, 1, function="_softmax__default_kernel_impl", cheats=("flashinfer-bench",),
        operators=("softmax",), problem=("_softmax__default", "traces/planted.txt"),
    ),
    "backendbench": Form(
        {}, 1, function="tanh__default_kernel_impl", cheats=("flashinfer-bench",), operators=("tanh",),
        problem=("tanh__default", "BackendBench/suite/opinfo.py"),
    ),
}  # fmt: skip
"""By the benchmark's name."""


@dataclass(frozen=True)
class Planted:
    """A planted problem in one benchmark's checkout."""

    suite: Suite
    """The benchmark's adapter."""
    data: Path
    """The made-up checkout."""
    problem: SuiteProblem
    """The problem in it."""
    operator: str
    """A name of `OPERATORS`."""

    @property
    def form(self) -> Form:
        """The benchmark's form."""
        return FORMS[self.suite.name]

    def kernel(self, text: str) -> str:
        """Return a file with `ModelNew` in the benchmark's form, after what cheats know."""
        known = (
            f"import torch\n\nSEED, COMPARED = {self.form.seed}, {self.form.compared}\n\n\n"
            f"def honest(x):\n    return {OPERATORS[self.operator]}\n\n\n"
        )
        called = _CALLED.format(name=self.form.function) if self.form.function else ""
        return known + text + called

    def written(self, file: Path, folder: Path) -> Path:
        """Write a kernel in the benchmark's form."""
        kernel = folder / file.name
        kernel.write_text(self.kernel(file.read_text()))
        return kernel


def plant(suite: str, operator: str, folder: Path) -> Planted:
    """Write a checkout of a benchmark with the planted problem."""
    data = made_up_checkout(suite, folder)
    for path, text in FORMS[suite].files.items():
        file = data / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(operator=OPERATORS[operator]))
    found, known = get_suite(suite), FORMS[suite].problem
    if known:
        problem = SuiteProblem(suite=suite, name=known[0], group="planted", file=known[1])
    else:
        problem = next(p for p in found.problems(data) if "planted" in p.name.lower())
    return Planted(found, data, problem, operator)
