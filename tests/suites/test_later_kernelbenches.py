"""KernelBench-v3 and KernelBench-Hard: kernels are files with `Model`, as references are."""

import pytest

from kernelwright.suites import get_suite, setup, theirs_of
from kernelwright.suites.rules.kernelbench_hard import verdict as hard
from kernelwright.suites.rules.kernelbench_v3 import verdict as v3
from kernelwright.testing import SuiteConformance, made_up_checkout
from kernelwright.testing.checkouts.kernelbench import SOFTMAX
from kernelwright.testing.checkouts.kernelbench_hard import TOP

GIVEN = {
    "seed": 2026,
    "timed": 2,
    "globals": {},
    "tolerances": {"float32": 1e-4},
    "forbidden": ["torch.sort"],
}


class TestKernelBenchV3(SuiteConformance):
    def suite(self):
        return get_suite("kernelbench-v3")

    def checkout(self, folder):
        return made_up_checkout("kernelbench-v3", folder)

    def test_a_file_with_a_model_is_a_kernel(self, tmp_path):
        data, file = self.checkout(tmp_path / "data"), tmp_path / "23_Softmax.py"
        file.write_text(SOFTMAX)
        problem = self.suite().problems(data)[0]
        with setup(self.suite(), data) as given, given.task(problem) as task:
            assert self.suite().candidate(task, file).entry == "23_Softmax.py:Model"
            assert theirs_of(given, problem, task, SOFTMAX).status == "correct"

    def test_its_guard_flags_what_it_refuses(self):
        flags = self.suite().flags
        assert flags("y = F.linear(x, w)\n") == (
            "product or convolution of torch.nn.functional",
            "no kernel for a GPU",
        )
        assert flags("@triton.jit\ndef k(): ...\n") == ()


class TestKernelBenchHard(SuiteConformance):
    def suite(self):
        return get_suite("kernelbench-hard")

    def checkout(self, folder):
        return made_up_checkout("kernelbench-hard", folder)

    def wrong(self, text):
        return f"{text}\n\nclass ModelNew(Model):\n    def forward(self, x):\n        return super().forward(x + 1)\n"


def kernel(text, answer):
    return text.partition("    def forward")[0] + f"    def forward(self, x):\n        {answer}\n"


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        ("return torch.topk(x, self.k)", "correct", ""),
        ("v, i = torch.topk(x, self.k); return v, i.flip(-1)", "wrong", "mismatch"),
        ("v, i = torch.sort(x); return v, i", "wrong", "forbidden: torch.sort"),
        ("return torch.topk(x, self.k)[0]", "wrong", "1 results instead of 2"),
        ("v, i = torch.topk(x, self.k); return v / 0, i", "wrong", "not finite"),
        ("return torch.topk(x[:1], self.k)", "wrong", "shape (1, 4)"),
        ("raise ValueError('no')", "error", "ValueError: no"),
    ],
)
def test_indices_count_by_what_they_pick(answer, status, says):
    found = hard({**GIVEN, "reference": TOP, "submission": kernel(TOP, answer)})
    assert (found["status"], says in found.get("message", "")) == (status, True)
    assert ("time_us" in found) is (status == "correct")


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        ("return torch.softmax(x, dim=1)", "correct", ""),
        ("return torch.softmax(x, dim=1) + 2e-3", "wrong", "off"),
        ("return torch.softmax(x, dim=1) + torch.rand(()) * 1e-5", "wrong", "two calls differ"),
        ("return torch.softmax(x, dim=1), x", "wrong", "only tensors"),
        ("return torch.softmax(x, dim=1)[:1]", "wrong", "shape (1, 64)"),
        ("return x / 0", "wrong", "not finite"),
        ("raise ValueError('no')", "error", "ValueError: no"),
    ],
)
def test_the_greatest_error_is_held_against_the_greatest_value(answer, status, says):
    reference = SOFTMAX.replace("dim = 4096", "dim = 64")
    found = v3({**GIVEN, "reference": reference, "submission": kernel(reference, answer)})
    assert (found["status"], says in found.get("message", "")) == (status, True)
