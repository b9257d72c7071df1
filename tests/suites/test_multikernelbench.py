"""MultiKernelBench's backends, and its references that only an NPU runs."""

import pytest

from kernelwright.errors import MissingToolError, TaskError
from kernelwright.suites import get_suite, judge_both, setup
from kernelwright.suites._backends import backends_in
from kernelwright.testing import made_up_checkout

SYCL = """Here is the kernel:
```python
import torch
from torch.utils.cpp_extension import load_inline

softmax = load_inline(name="softmax", cpp_sources="", sycl_sources="...", functions=["softmax"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return softmax.softmax(x)
```
"""


HALF = '''import torch
import torch.nn as nn
import torch_npu


class Model(nn.Module):
    """Scales by a half.

    torch_npu.npu_half(x) -> Tensor

    PyTorch native implementation
    def forward(self, x):
        return self._scaled(x, 0.5)

    def _scaled(self, x, by):
        return x * by
    """

    def forward(self, x):
        return torch_npu.npu_half(x)


def get_inputs():
    return [torch.randn(8, 16)]


def get_init_inputs():
    return []
'''


@pytest.fixture
def suite():
    return get_suite("multikernelbench")


@pytest.fixture
def data(tmp_path):
    made = made_up_checkout("multikernelbench", tmp_path / "checkout")
    (made / "reference/npukernelbench_level2").mkdir()
    (made / "reference/npukernelbench_level2/1_half.py").write_text(HALF)
    return made


def of(suite, data, name):
    return next(p for p in suite.problems(data) if p.name == name)


def test_what_only_an_npu_has_is_taken_from_the_docstring_that_defines_it(suite, data):
    problem = of(suite, data, "npukernelbench_level2/1_half")
    with setup(suite, data) as given, given.task(problem) as task:
        text = task.reference.files[0].text
    assert "import torch_npu" not in text and text.count("return x * by") == 2


@pytest.mark.parametrize(
    "docstring", ["def forward(self, x): return torch_npu.npu_half(x)", "half of x", "def (:"]
)
def test_what_no_docstring_defines_needs_an_npu(suite, data, tmp_path, docstring):
    problem = of(suite, data, "npukernelbench_level2/1_half")
    file = data / problem.file
    file.write_text(
        f'import torch_npu\nclass Model:\n    """{docstring}"""\n    def forward(self, x):\n'
        "        return torch_npu.npu_half(x)\n"
    )
    with pytest.raises(TaskError, match=r"1_half calls torch_npu\.npu_half, which only an Ascend NPU has"):
        suite.target(data, problem, tmp_path / "there")


def test_the_registry_of_backends_says_which_hardware_each_is_for(data):
    assert {name: one.hardware for name, one in backends_in(data).items()} == {
        "ascendc": "an Ascend NPU", "sycl": "an Intel GPU", "triton_ascend": "an Ascend NPU",
    }  # fmt: skip


def test_a_kernel_for_absent_hardware_is_a_row_with_what_it_needs(suite, data, tmp_path):
    response = tmp_path / "output/sycl/add_shot/0.0-1.0/model/run0/softmax.txt"
    response.parent.mkdir(parents=True)
    response.write_text(SYCL)
    assert suite.candidates(tmp_path / "output", suite.problems(data)) == {"activation/softmax": response}
    with setup(suite, data, store=tmp_path / "store") as given:
        row = judge_both(given, of(suite, data, "activation/softmax"), response)
    assert (row.theirs.status, row.ours.decision) == ("unknown", "unknown")
    assert row.theirs.message == "it is for the backend 'sycl', whose tests need an Intel GPU"
    assert row.ours.reason.startswith("it was read and not built: the backend 'sycl' builds with icpx")


def test_kernels_for_musa_and_for_cann_become_candidates_that_run_here(suite, data, tmp_path):
    other = made_up_checkout("npukernelbench", tmp_path / "npu") / "tasks"
    (kernel,) = other.rglob("op_kernel/scale.cpp")
    texts = {"kernel_src": kernel, "host_operator_src": kernel.parent.parent / "op_host" / "scale.cpp"}
    cann = "".join(f"{symbol} = {file.read_text()!r}\n" for symbol, file in texts.items())
    musa = SYCL.replace("sycl", "musa").replace("torch.utils.cpp", "torch_musa.utils.musa")
    musa = musa.replace('"..."', '"/**/ musaStream_t s;"')
    file = tmp_path / "softmax.txt"
    with setup(suite, data) as given, given.task(of(suite, data, "activation/softmax")) as task:
        file.write_text(musa)
        made = suite.candidate(task, file)
        assert made.language == "cuda" and "musa" not in made.sources[0].text
        file.write_text(cann)
        with pytest.raises(TaskError, match="lacks host_tiling_src"):
            suite.candidate(task, file)
        file.write_text(f"{cann}host_tiling_src = ''\n")
        with pytest.raises(TaskError, match=r"the operator has the attributes \['alpha'\]"):
            suite.candidate(task, file)
        file.write_text(f"import torch_xla\n{SYCL}")
        with pytest.raises(MissingToolError, match="icpx"):
            suite.candidate(task, file)
