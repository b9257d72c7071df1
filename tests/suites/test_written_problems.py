"""What adapters write into a problem's file where the checkout's own text does not run without a GPU or a package."""

import pytest
import torch

from kernelwright.errors import TaskError
from kernelwright.records import Split
from kernelwright.suites import get_suite, setup
from kernelwright.suites._definitions import definitions
from kernelwright.suites._recorded_calls import parsed, problem_of
from kernelwright.suites.liger import alone, extra_configs, from_tests
from kernelwright.testing import made_up_checkout

VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
FP4 = """import torch


def generate_input(m, n, k, seed):
    torch.manual_seed(seed)
    made = []
    for rows, columns, inner in zip(m, n, k):
        a = torch.randint(0, 256, (rows, inner // 2), dtype=torch.uint8, device="cuda").view(torch.float4_e2m1fn_x2)
        b = torch.randint(0, 256, (columns, inner // 2), dtype=torch.uint8, device="cuda").view(torch.float4_e2m1fn_x2)
        scales = [torch.rand(-(-r // 128) * 128 * inner // 16, device="cuda").to(torch.float8_e4m3fn)
                  for r in (rows, columns)]
        made.append((a, b, *scales))
    return made


def ref_kernel(data):
    return [torch._scaled_mm(a, b.t(), x, y, bias=None, out_dtype=torch.float16) for a, b, x, y in data]


def check_implementation(data, output):
    return ""
"""
MANIFEST = """files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "reference.py", "source": "reference.py"}
tests:
  - {"m": [128, 40], "n": [128, 128], "k": [128, 128], "seed": 1}
benchmarks:
  - {"m": [128, 40], "n": [256, 256], "k": [256, 256], "seed": 2}
"""


@pytest.fixture
def fp4(tmp_path):
    """A made-up problem with products of 4-bit floats, and the checkout that it is in."""
    data = made_up_checkout("reference-kernels", tmp_path / "data")
    home = data / "problems/pmpp_v2/fp4"
    home.mkdir()
    (home / "task.yml").write_text(MANIFEST)
    (home / "reference.py").write_text(FP4)
    suite = get_suite("reference-kernels")
    return data, next(p for p in suite.problems(data) if p.name.endswith("fp4"))


def test_products_of_four_bit_floats_are_those_that_their_layout_defines(fp4, tmp_path):
    get_suite("reference-kernels").target(*fp4, tmp_path)
    assert "kw_place.scaled_mm(a, b.t(), x, y" in (tmp_path / "reference.py").read_text()
    space: dict[str, object] = {}
    exec((tmp_path / "kw_place.py").read_text(), space)
    rows, inner = 150, 64
    packed = torch.randint(0, 256, (rows, inner // 2), dtype=torch.uint8)
    scales = torch.rand(2 * 128 * 4).to(torch.float8_e4m3fn)
    found = space["kw_scaled"](packed, scales)
    for row, column in ((0, 0), (33, 17), (127, 63), (128, 16), (149, 40)):
        half = int(packed[row, column // 2]) >> 4 * (column % 2) & 15
        tile, at = divmod(row, 128)
        scale = scales[512 * tile + 16 * (at % 32) + 4 * (at // 32) + column // 16].item()
        assert found[row, column] == VALUES[half & 7] * (-1) ** (half >> 3) * scale


@pytest.mark.long
def test_four_bit_floats_are_passed_as_bytes_and_a_list_of_one_size_varies(fp4):
    data, problem = fp4
    with (
        setup(get_suite("reference-kernels"), data, max_elements=50_000) as given,
        given.task(problem) as task,
    ):
        workload = task.split(Split.SEARCH)[0]
        assert workload.arguments[0].dtype == "uint8"
        assert {o.dtype for o in workload.outputs} == {"float16"}
        assert workload.axes["n"] < 256


def test_definitions_come_with_what_they_need_and_without_a_package(tmp_path):
    (tmp_path / "test").mkdir()
    (tmp_path / "test/base.py").write_text(
        "import math as m\n\nSCALE = 2.0\n\n\nclass Base:\n    by = SCALE * m.pi\n"
    )
    (tmp_path / "test/test_loss.py").write_text(
        "import triton\nfrom test.base import Base\nfrom test.base import SCALE as S\n\n\n"
        "class Loss(Base):\n    half = S / 2\n\n\ndef fast(x):\n    return triton.cdiv(x, 2)\n"
    )
    found = definitions({"test": tmp_path}, "test.test_loss", ["Loss", "fast"], without="triton")
    assert set(found) == {"Loss"}
    space: dict[str, object] = {}
    exec(found["Loss"], space)
    assert space["Loss"].half == 1.0
    assert space["Loss"].by == 2.0 * torch.pi
    script = (
        "def setup():\n    from test.test_loss import LigerLoss\n    from test.test_loss import Loss\n"
        "    return Loss\n"
    )
    exec(from_tests(tmp_path, script, "loss") + "\n" + alone(script), space)
    assert space["setup"]() is space["Loss"]
    with pytest.raises(TaskError, match=r"test\.test_loss\.fast, which needs Triton"):
        from_tests(tmp_path, "    from test.test_loss import fast\n", "loss")


def test_a_scripts_configuration_is_the_first_of_a_loop_and_what_a_call_names():
    text = "def bench(level):\n    run(extra_configs={'level': level, 'eps': 1e-6})\n\nbench(level='token')\n"
    assert extra_configs(text) == {"level": "token", "eps": 1e-6}
    assert extra_configs("for b in [True, False]:\n    run(extra_configs={'b': b})") == {"b": True}


def test_sizes_that_a_call_names_do_not_vary():
    text = problem_of(
        "aten.native_layer_norm.default",
        parsed("((T([64, 384], f32), [384], T([384], f32), None, 1e-05), {})"),
    )
    assert 'torch.rand(size_64, int("384"), dtype=torch.float32)' in text
    assert "size_384" not in text
