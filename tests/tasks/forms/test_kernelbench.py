"""The KernelBench form on files of many kinds."""

import functools
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.errors import TaskError
from kernelwright.records import Contract, Reference, ScalarSpec, SourceFile, Split, Task, TensorSpec
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.forms import _shape_probe
from kernelwright.tasks.workloads._shrink import workload_elements

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.py"))
LIMIT = 200_000


@functools.cache
def _load(name: str, limit: int = LIMIT) -> Task:
    return load_task(CORPUS[0].with_name(f"{name}.py"), max_elements=limit)


def _constants(task: Task) -> dict[str, int]:
    return task.split(Split.SEARCH)[0].axes


@pytest.mark.parametrize(
    "file",
    [pytest.param(f, id=f.stem, marks=pytest.mark.long if i % 3 else ()) for i, f in enumerate(CORPUS)],
)
def test_every_file_shrinks_runs_and_gets_its_splits(file: Path) -> None:
    task = _load(file.stem)
    problem = Problem(task)
    (search,) = task.split(Split.SEARCH)
    assert workload_elements(search) <= LIMIT
    assert len(task.split(Split.HIDDEN)) >= 2
    assert len(task.split(Split.CONFIRM)) >= 1
    assert len({w.name for w in task.workloads}) == len(task.workloads)
    inputs, state = problem.inputs(search, 1), problem.state(search, 1)
    native, truth = problem.run_reference(search, inputs, state), problem.run_oracle(search, inputs, state)
    assert truth.precision == "float64"
    for spec, output, exact in zip(search.outputs, native.outputs, truth.outputs, strict=True):
        assert (tuple(output.shape), str(output.dtype)) == (spec.shape, f"torch.{spec.dtype}")
        assert bool(torch.isfinite(output).all())
        if not task.contract.stochastic:
            assert torch.allclose(output.double(), exact.double(), rtol=1e-3, atol=1e-3)


def test_every_shrunk_constant_is_noted() -> None:
    task = _load("cross_entropy")
    assert task.notes == ("shrunk batch_size: 32,768 → 256", "shrunk num_classes: 4,096 → 512")
    assert _constants(task) == {"batch_size": 256, "num_classes": 512}


def test_targets_stay_in_the_shrunk_range() -> None:
    task = _load("cross_entropy")
    for workload in task.workloads:
        logits, targets = Problem(task).inputs(workload, 0)
        assert 0 <= int(targets.min()) <= int(targets.max()) < logits.shape[1]


def test_groups_stay_smaller_than_channels_everywhere() -> None:
    for name, channels in (("many_groups", "out_features"), ("groupnorm", "features")):
        task = _load(name)
        problem = Problem(task)
        for workload in task.workloads:
            module = problem.reference(workload)
            assert isinstance(module, torch.nn.Module)
            norm = next(m for m in module.modules() if isinstance(m, torch.nn.GroupNorm))
            assert norm.num_channels % norm.num_groups == 0, (name, channels, workload.name)
        norm = next(
            m for m in problem.reference(task.workloads[0]).modules() if isinstance(m, torch.nn.GroupNorm)
        )
        assert norm.num_channels // norm.num_groups >= 2


def test_an_index_range_that_meta_cannot_check_shrinks_with_its_table() -> None:
    task = _load("gather", 100_000)
    x, index = Problem(task).inputs(task.workloads[0], 0)
    assert int(index.max()) < x.shape[1]


def test_two_coupled_constants() -> None:
    assert len(set(_constants(_load("hinge_loss")).values())) == 1


def test_the_contract_says_what_a_run_showed() -> None:
    assert _load("batchnorm2d").contract.mutates == (
        "bn.running_mean",
        "bn.running_var",
        "bn.num_batches_tracked",
    )
    inplace = _load("inplace_relu").contract
    assert (inplace.mutates, inplace.may_alias) == (("x",), True)
    assert _load("dropout_linear").contract.stochastic
    plain = _load("residual_scale").contract
    assert (plain.mutates, plain.may_alias, plain.stochastic) == ((), False, False)


def test_reference_mutations_show_in_the_outcome_and_not_in_the_inputs() -> None:
    task = _load("inplace_relu")
    problem, workload = Problem(task), task.workloads[0]
    inputs = problem.inputs(workload, 0)
    before = inputs[0].clone()
    outcome = problem.run_reference(workload, inputs, {})
    assert torch.equal(inputs[0], before)
    assert torch.equal(outcome.mutated["x"], before.relu())


def test_running_statistics_after_the_call() -> None:
    task = _load("batchnorm2d")
    problem, workload = Problem(task), task.workloads[0]
    state = problem.state(workload, 3)
    outcome = problem.run_reference(workload, problem.inputs(workload, 3), state)
    assert int(outcome.state["bn.num_batches_tracked"]) == 1
    assert not torch.equal(outcome.state["bn.running_mean"], state["bn.running_mean"])


def test_distributions_and_layouts_in_the_record() -> None:
    kinds = {
        name: [s.distribution.kind for s in _load(name).workloads[0].arguments if isinstance(s, TensorSpec)]
        for name in ("masked_cumsum", "kl_div", "triangular_matmul", "embedding_bag")
    }
    assert kinds == {
        "masked_cumsum": ["uniform", "bernoulli"], "kl_div": ["given", "probabilities"],
        "triangular_matmul": ["given", "given"], "embedding_bag": ["integers"],
    }  # fmt: skip
    task = _load("matmul_transposed")
    spec = task.workloads[0].arguments[0]
    assert isinstance(spec, TensorSpec)
    assert spec.layout == "transposed"
    assert Problem(task).inputs(task.workloads[0], 0)[0].T.is_contiguous()


def test_given_inputs_come_from_the_file_under_the_seed() -> None:
    task = _load("triangular_matmul")
    problem, workload = Problem(task), task.workloads[0]
    first, again, other = (problem.inputs(workload, s)[0] for s in (1, 1, 2))
    assert torch.equal(first, first.triu())
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_scalar_argument() -> None:
    task = _load("scalar_times_matrix")
    assert task.workloads[0].arguments[1] == ScalarSpec(name="s", value=3.14)
    assert Problem(task).inputs(task.workloads[0], 0)[1] == 3.14


def test_the_mask_in_a_buffer_is_kept() -> None:
    task = _load("attention")
    problem, workload = Problem(task), task.workloads[0]
    mask = problem.state(workload, 5)["bias"]
    assert torch.equal(mask, torch.ones_like(mask).tril())


def test_ones_and_zeros_are_randomised_for_every_workload() -> None:
    task = _load("residual_scale")
    for workload in task.workloads:
        state = Problem(task).state(workload, 9)
        for name, tensor in state.items():
            assert not bool((tensor == 1).all()), (workload.name, name)
            assert not bool((tensor == 0).all()), (workload.name, name)


def test_init_arguments_follow_the_constants() -> None:
    task = _load("mlp_sizes")
    problem = Problem(task)
    width, layers, _ = problem.init_arguments(task.workloads[0])
    assert layers == [_constants(task)["layer_sizes[0]"], _constants(task)["layer_sizes[1]"]]
    assert width == problem.inputs(task.workloads[0], 0)[0].shape[1]


def test_sources_carry_the_workload_s_constants_and_nothing_else_changes() -> None:
    task = _load("cross_entropy")
    problem = Problem(task)
    text = problem.sources(task.workloads[0]).files[0].text
    original = CORPUS[0].with_name("cross_entropy.py").read_text()
    assert text == original.replace("= 32768", "= 256").replace("= 4096", "= 512")
    assert task.reference.files[0].text == original


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("eager", ()),
        ("compile", ("--compile=default",)),
        ("compile-max-autotune", ("--compile=max-autotune",)),
        ("compile-freezing", ("--compile=freezing",)),
        ("compile-max-autotune-freezing", ("--compile=max-autotune-freezing",)),
    ],
)
def test_baselines(name: str, flags: tuple[str, ...]) -> None:
    task = _load("conv2d_relu")
    candidate = Problem(task).baseline(name, task.workloads[0])
    assert (candidate.language, candidate.style, candidate.flags) == ("torch", "module", flags)
    assert candidate.entry == "conv2d_relu.py:Model"
    assert "batch_size = 128" not in candidate.sources[0].text


def test_full_size_loads_without_allocating_it(tmp_path: Path) -> None:
    file = tmp_path / "huge.py"
    file.write_text(
        "import torch, torch.nn as nn\nn = 1 << 40\nclass Model(nn.Module):\n    def forward(self, x): return x + 1\n"
        "def get_inputs(): return [torch.rand(n)]\n"
    )
    with pytest.raises(TaskError, match=r"TB|GB are free; pass --max-elements"):
        load_task(file)
    assert _constants(load_task(file, max_elements=1000)) == {"n": 256}


def test_the_user_s_file_leaves_no_trace(tmp_path: Path) -> None:
    file = tmp_path / "nosy.py"
    file.write_text(
        "import os, sys, torch, torch.nn as nn\nos.chdir('/')\nsys.path.append('/nowhere')\nsys.argv.append('x')\n"
        "count = int(os.environ.get('NONE', '0'))\n"
        "class Model(nn.Module):\n    def forward(self, x): return x * 2\n"
        "def get_inputs(): return [torch.rand(64, 64)]\n"
    )
    modules = {"nosy", "task"} & set(sys.modules)
    folder, path, argv, seed = Path.cwd(), list(sys.path), list(sys.argv), torch.random.get_rng_state()
    load_task(file)
    assert (Path.cwd(), sys.path, sys.argv) == (folder, path, argv)
    assert torch.equal(torch.random.get_rng_state(), seed)
    assert {"nosy", "task"} & set(sys.modules) == modules


def test_a_file_is_executed_once_for_each_set_of_constants(tmp_path: Path) -> None:
    file, log = tmp_path / "counted.py", tmp_path / "log"
    file.write_text(
        f"import torch, torch.nn as nn\nwith open({os.fspath(log)!r}, 'a') as log: log.write('x')\nwidth = 64\n"
        "class Model(nn.Module):\n    def forward(self, x): return x * 2\n"
        "def get_inputs(): return [torch.rand(8, width)]\n"
    )
    task = load_task(file)
    problem = Problem(task)
    executed = len(log.read_text())
    for seed in range(5):
        workload = task.workloads[0]
        problem.run_oracle(workload, problem.inputs(workload, seed), problem.state(workload, seed))
    assert len(log.read_text()) == executed


FIXED = """
import torch

class Model(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.body = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(layers)])

    def forward(self, x):
        return self.body(x)

batch, layers = 4096, 20

def get_inputs():
    return [torch.rand(batch, 64)]

def get_init_inputs():
    return [layers]
"""


def test_state_that_no_constant_changes_does_not_count_and_layers_stay(tmp_path: Path) -> None:
    file = tmp_path / "deep.py"
    file.write_text(FIXED)
    task = load_task(file, max_elements=10_000)
    assert task.notes == (
        "shrunk batch: 4,096 → 64", "not counted: 83,200 elements of state that no constant changes",
    )  # fmt: skip
    with pytest.raises(TaskError, match=r"not counting 83,200 elements .* cannot shrink below 256 elements"):
        load_task(file, max_elements=100)


ON_A_GPU = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, y, z):
        return x + y + z

size = 8

def get_inputs():
    x = torch.rand(size, 4, device="cuda", dtype=torch.float16)
    y = torch.randn(size, 4).cuda().half()
    return [x, y, torch.ones(size, 4, device=torch.device("cuda:1")).to("cuda", torch.float16)]
"""


def test_a_gpu_that_inputs_are_made_on_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(ON_A_GPU)
    task = load_task(tmp_path / "task.py")
    specs = [s for s in task.workloads[0].arguments if isinstance(s, TensorSpec)]
    assert [(s.dtype, s.distribution.kind) for s in specs] == [
        ("float16", "uniform"), ("float16", "normal"), ("float16", "constant"),
    ]  # fmt: skip
    assert all(t.device.type == "cpu" for t in Problem(task).inputs(task.workloads[0], 0))


REFUSING = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] == 6 and x.device.type == "meta":
            raise ValueError("not six")
        return x + 1

rows = 8

def get_inputs():
    return [torch.rand(rows, 1 << 14)]
"""


def test_sizes_that_meta_refuses_are_not_run_for_real_where_it_ran_the_declared_ones(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(REFUSING)
    problem = Problem(load_task(tmp_path / "task.py"))
    declared = problem.task.workloads[0]
    assert workload_elements(problem.at(declared, {"rows": 5})) == 2 * 5 << 14
    with pytest.raises(TaskError, match="not six"):
        problem.at(declared, {"rows": 6})


def test_a_state_is_drawn_once_for_all_regimes_of_the_same_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[dict[str, int]] = []
    plain = Problem.state
    monkeypatch.setattr(Problem, "state", lambda p, w, seed: drawn.append(w.axes) or plain(p, w, seed))
    file = tmp_path / "deep.py"
    file.write_text(FIXED.replace("layers = 4096, 20", "layers = 32, 2"))
    task = load_task(file)
    assert len({w.regime for w in task.workloads}) > 3
    assert len(drawn) <= len({tuple(w.axes.items()) for w in task.workloads}) + 2


def test_lazy_layers_take_their_sizes_from_the_inputs(tmp_path: Path) -> None:
    file = tmp_path / "lazy.py"
    file.write_text(
        "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.layer = nn.LazyLinear(16)\n"
        "    def forward(self, x):\n        return self.layer(x)\n"
        "def get_inputs():\n    return [torch.randn(64, 32)]\n"
    )
    task = load_task(file)
    problem, (search,) = Problem(task), task.split(Split.SEARCH)
    assert [spec.shape for spec in search.state] == [(16, 32), (16,)]
    inputs, state = problem.inputs(search, 1), problem.state(search, 1)
    (output,) = problem.run_reference(search, inputs, state).outputs
    assert torch.allclose(output, inputs[0] @ state["layer.weight"].T + state["layer.bias"], atol=1e-4)


EVALUATED = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.frozen = nn.BatchNorm1d(8).eval()
        PUT

    def forward(self, x):
        return self.norm(x) + self.frozen(x)


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("put", "mode", "parts"), [
    ("self.eval()", "eval", (False, False)), ("pass", "train", (True, False)),
])  # fmt: skip
def test_a_module_runs_in_the_mode_in_which_its_file_builds_it(tmp_path, put, mode, parts):
    path = tmp_path / "norms.py"
    path.write_text(EVALUATED.replace("PUT", put))
    problem = Problem(load_task(path))
    assert problem.task.contract.mode == mode
    module = problem.reference(problem.task.workloads[0])
    assert (module.norm.training, module.frozen.training) == parts
    assert load_task(path, contract=Contract(mode="train")).contract.mode == "train", (
        "a mode that is named is kept"
    )


SIZED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 8)
    def forward(self, x):
        return self.linear(x)

def get_inputs():
    return [MADE]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("made", "devices"),
    [
        ("torch.randn(4, 16)", ["cpu"]),
        ("torch.randn(1 << 20, 16)", ["cpu", "meta"]),
        ("torch.ones(4, 1).expand(4, 16)", ["cpu", "meta", "cpu"]),
        ("(0.5 - torch.rand(4, 1) * torch.rand(16)).float()", ["cpu"]),
        ("torch.rand(1 << 16, 1) - torch.rand(16)", ["cpu", "meta"]),
    ],
    ids=[
        "small",
        "large",
        "of unknown size",
        "small by arithmetic",
        "large by arithmetic",
    ],
)
def test_what_is_known_to_be_small_is_run_for_real_at_once(
    monkeypatch: pytest.MonkeyPatch, made: str, devices: list[str]
) -> None:
    seen = _devices_of_probes(monkeypatch)
    found = _shape_probe.probe(_sized(made))
    assert seen == devices
    assert found.device == devices[-1]
    assert isinstance(found.arguments[0], TensorSpec) and found.arguments[0].shape[1] == 16
    assert [s.shape for s in found.state] == [(8, 16), (8,)]


def test_what_is_small_and_fails_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = _devices_of_probes(monkeypatch)
    with pytest.raises(TaskError, match="4x15"):
        _shape_probe.probe(_sized("torch.rand(4, 15)"))
    assert seen == ["cpu"]


def _sized(made: str) -> Reference:
    files = (SourceFile(path="m.py", text=SIZED.replace("MADE", made)),)
    return Reference(files=files, entry="m.py:Model", style="module", origin="m.py")


def _devices_of_probes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that takes the device of each probe from now on."""
    seen, run = list[str](), _shape_probe._probe

    def noted(module: Any, reference: Reference, device: str, *rest: Any, **options: Any) -> Any:
        seen.append(device)
        return run(module, reference, device, *rest, **options)

    monkeypatch.setattr(_shape_probe, "_probe", noted)
    return seen


LOOKS = """
import torch

rows, columns = 65536, 1024

class Model(torch.nn.Module):
    def forward(self, x, lengths):
        return torch.stack([x[i, : int(lengths[i].item())].sum() for i in range(len(lengths))])

def get_inputs():
    lengths = torch.full((16,), columns)
    assert int(lengths.sum().item()) == 16 * columns
    return [torch.randn(rows, columns), lengths]
"""


def test_a_file_that_looks_at_values_is_shrunk_before_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "looks.py"
    path.write_text(LOOKS)
    task = load_task(path, max_elements=LIMIT)
    assert workload_elements(task.split(Split.SEARCH)[0]) <= LIMIT
    with pytest.raises(TaskError, match="meta tensors"):
        load_task(path)
