"""Packages in the layout of the `kernels` library: what is in them, and that the library loads and uses them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.deploy.test_operators import KERNEL
from tests.deploy.test_package import CANDIDATE, claim, make_task, specialisation

from kernelwright.deploy import package
from kernelwright.records import Candidate, SourceFile

PYTHON = Candidate(sources=(SourceFile(path="k.py", text=KERNEL),), language="torch", entry="k.py:run")
HEAD = """
import warnings
from pathlib import Path

import torch
from kernels import Device, LocalLayerRepository, Mode, get_local_kernel, kernelize, use_kernel_forward_from_hub
from kernels import use_kernel_mapping
x, b = torch.randn(4, 16), torch.randn(16)

@use_kernel_forward_from_hub("Shift")
class Shift(torch.nn.Module):
    def __init__(self, extra=0.0):
        super().__init__()
        self.b, self.extra = torch.nn.Parameter(torch.randn(16)), extra

    def forward(self, x, a):
        return x * a + self.b + self.extra

def kernelized(model):
    layer = LocalLayerRepository(Path.cwd(), layer_name="ScaleShift")
    with use_kernel_mapping({"Shift": {"cpu": layer}}, inherit_mapping=False):
        return kernelize(model, mode=Mode.INFERENCE | Mode.TORCH_COMPILE, device="cpu")

def away(model, x, a=2.5):
    return round(float((model(x, a) - type(model).forward(model, x, a)).mean()), 3)
"""


def export(folder: Path, candidate: Candidate = PYTHON, module: bool = True) -> Path:
    task = make_task(module=module)
    made = [specialisation(task, candidate)]
    package(task, made, claim(task), folder, init=(16,) if module else (), form="kernels")
    return folder


def library(folder: Path, code: str) -> None:
    """Run code in a process of its own, without network and without us."""
    alone = f"{HEAD}import sys\nsys.modules['kernelwright'] = None\n{code}"
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", alone],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_build_holds_what_the_library_reads(tmp_path: Path) -> None:
    home = export(tmp_path / "out", CANDIDATE) / "build" / "torch-cpu"
    told = json.loads((home / "metadata.json").read_text())
    assert told["name"] == "scale-shift" and told["backend"] == {"type": "cpu"} and told["version"] == 1
    assert told["python-depends"] == ["tvm-ffi"] and told["id"].startswith("scale_shift_cpu_")
    assert {p.name for p in home.iterdir()} == {
        "__init__.py", "_runtime", "layers.py", "metadata.json", "native.py", "reference", "specialisations",
        "specialisations.json",
    }  # fmt: skip
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "CLAIM.md",
        "README.md",
        "build",
        "claim.json",
        "judged.json",
    }
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "library_name: kernels" in readme and 'layer_name="ScaleShift"' in readme
    compile((home / "__init__.py").read_text(), "__init__.py", "exec")
    compile((home / "layers.py").read_text(), "layers.py", "exec")


@pytest.mark.long
@pytest.mark.needs("kernels")
def test_the_library_loads_it_and_its_layer_takes_the_place_of_equal_ones_alone(tmp_path: Path) -> None:
    library(export(tmp_path / "out"), """
kernel = get_local_kernel(Path.cwd())
assert round(float((kernel.scale_shift(x, 2.5, b) - kernel.native(x, 2.5, b)).mean())) == 100
assert kernel.layers.ScaleShift.has_backward and kernel.layers.ScaleShift.can_torch_compile
model = kernelized(Shift())
with torch.no_grad():
    assert away(model, torch.randn(9, 16)) == 0 and away(model, x) == 0, "the first call compares"
    assert away(model, x) == 100 and away(model, torch.randn(9, 16)) == 0 and away(model, x, 2.0) == 0
    model.b.mul_(2)
    assert away(model, x) == 100
    assert away(model.eval(), x) == 0 and away(model, x) == 100, "each mode is compared"
    torch._dynamo.reset()
    around = torch.compile(lambda x: model(x.relu(), 2.5), fullgraph=True, backend="aot_eager")
    assert round(float((around(x) - type(model).forward(model, x.relu(), 2.5)).mean())) == 100
    with torch.autocast("cpu", torch.bfloat16):
        assert away(model, x) == 0
    other = kernelized(Shift(extra=1e-4))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert away(other, x) == 0 and away(other, x) == 0
    assert "keeps its own forward" in str(said[-1].message)
    assert torch.vmap(lambda x: model(x, 2.5))(x[None]).shape == (1, 4, 16)
assert away(model, x) == 0, "gradients"
model(x, 2.5).sum().backward()
assert torch.equal(model.b.grad, torch.full((16,), 4.0))
assert list(model.state_dict()) == ["b"]
""")  # fmt: skip


@pytest.mark.long
@pytest.mark.needs("kernels", "C++ compiler")
def test_a_compiled_kernel_and_a_function_are_loaded_too(tmp_path: Path) -> None:
    library(export(tmp_path / "out", CANDIDATE, module=False), """
kernel = get_local_kernel(Path.cwd())
assert kernel.dispatcher.choose(x, 2.5, b).startswith("cpp")
kernel.scale_shift(x, 2.5, b)
kernel.dispatcher.native = None
torch.testing.assert_close(kernel.scale_shift(x, 2.5, b), x * 2.5 + b)
""")  # fmt: skip
