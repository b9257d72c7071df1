"""Adapters whose kernels are functions: called as a test calls them, or as a recorded call of an operator."""

import re
from collections import Counter

import pytest

from kernelwright.errors import TaskError
from kernelwright.records import Candidate, SourceFile, Split
from kernelwright.suites import backendbench as backendbench_module
from kernelwright.suites import get_suite, setup, theirs_of
from kernelwright.suites._opinfo import Sampled, recorded
from kernelwright.suites._recorded_calls import most_frequent, parsed, problem_of
from kernelwright.testing import SuiteConformance, made_up_checkout


class TestKernelBenchX(SuiteConformance):
    def suite(self):
        return get_suite("kernelbench-x")

    def checkout(self, folder):
        return made_up_checkout("kernelbench-x", folder)

    def right(self, text):
        return text

    def wrong(self, text):
        return text.replace("torch.relu(x + shift)", "torch.relu(x + shift) * 1.2")

    def test_how_the_largest_call_draws_its_tensors_is_seen(self, tmp_path):
        """Values that only the test can draw are verified on no others."""
        suite, data = self.suite(), self.checkout(tmp_path)
        with setup(suite, data) as given, given.task(suite.problems(data)[0]) as task:
            (searched,) = task.split(Split.SEARCH)
            assert [(a.shape, a.distribution.kind) for a in searched.arguments] == [((16, 32), "normal")]
            assert {w.regime for w in task.split(Split.HIDDEN)} >= {"special", "large-scale"}

    @pytest.mark.long
    def test_a_contract_of_quantisation_is_by_three_errors_and_others_by_tolerance(self, tmp_path):
        suite, data = self.suite(), self.checkout(tmp_path)
        said = {}
        with setup(suite, data) as given:
            for problem in suite.problems(data):
                text = (data / problem.file).read_text()
                with given.task(problem) as task:
                    coarse = text.replace("torch.relu(x + shift)", "torch.relu(x + shift) * 1.01")
                    said[problem.group] = theirs_of(given, problem, task, coarse).status
        assert said == {"Activation": "wrong", "Quantization": "correct"}

    def test_the_largest_call_is_the_task_and_a_kernel_may_have_the_common_name(self, tmp_path):
        suite, data, file = self.suite(), self.checkout(tmp_path / "data"), tmp_path / "shifted_relu.py"
        file.write_text(
            "import torch\n\ndef kernel_function(x, shift=0.0):\n    return torch.relu(x + shift)\n"
        )
        problem = suite.problems(data)[0]
        with setup(suite, data) as given, given.task(problem) as task:
            (workload,) = task.split(Split.SEARCH)
            assert [s.shape for s in workload.arguments] == [(16, 32)]
            assert "import kernel_function" in suite.candidate(task, file).sources[0].text

    def test_a_librarys_quantisation_is_flagged(self):
        assert self.suite().flags("y = torch.quantize_per_tensor(x, 1, 0)") == ("library quantisation",)
        assert self.suite().flags("y = x.round()") == ()


class TestTritonBenchMeta(SuiteConformance):
    def suite(self):
        return get_suite("tritonbench-meta")

    def checkout(self, folder):
        return made_up_checkout("tritonbench-meta", folder)

    def right(self, text):
        del text
        return (
            "def aten_add_Tensor(x, y, *, alpha=1):\n    return x + alpha * y\n\n"
            "def aten_bmm_default(x, y):\n    return x @ y\n"
        )

    def wrong(self, text):
        return self.right(text).replace("return x", "return 1.01 * x")

    def test_the_most_frequent_call_is_the_task_and_its_sizes_may_vary(self, tmp_path):
        suite, data, file = self.suite(), self.checkout(tmp_path / "data"), tmp_path / "aten_add_Tensor.py"
        file.write_text("def aten_add_Tensor(x, y, *, alpha=1):\n    return x + alpha * y\n")
        problem = suite.problems(data)[0]
        with setup(suite, data) as given, given.task(problem) as task:
            (workload,) = task.split(Split.SEARCH)
            assert [s.shape for s in workload.arguments] == [(16, 64), (64,)]
            assert task.split(Split.HIDDEN)
            assert "aten_add_Tensor(x0, x1, alpha=2)" in suite.candidate(task, file).sources[0].text
            with pytest.raises(TaskError, match="defines no"):
                file.write_text("")
                suite.candidate(task, file)

    @pytest.mark.long
    def test_a_kernel_of_ours_has_its_form(self, tmp_path):
        suite, data = self.suite(), self.checkout(tmp_path)
        source = SourceFile(path="k.py", text="def run(a, b):\n    return a + 2 * b\n")
        found = Candidate(sources=(source,), language="torch", entry="k.py:run")
        problem = suite.problems(data)[0]
        with setup(suite, data) as given, given.task(problem) as task:
            assert theirs_of(given, problem, task, suite.submission(task, found)).status == "correct"


class TestBackendBench(SuiteConformance):
    @pytest.fixture(autouse=True)
    def few(self, monkeypatch):
        known = {
            "clone.default": Sampled(op="clone", variant="", indices=(0,), call="", ranges=()),
            "relu.default": Sampled(
                op="nn.functional.relu", variant="", indices=(0, 1, 2, 3), call="((T([5, 10, 5], f32),), {})",
                ranges=((-9, 9),),
            ),
        }  # fmt: skip
        monkeypatch.setattr(backendbench_module, "samples", lambda: known)

    def suite(self):
        return get_suite("backendbench")

    def checkout(self, folder):
        return made_up_checkout("backendbench", folder)

    def right(self, text):
        del text
        return "import torch\n\ndef relu__default_kernel_impl(x):\n    return torch.relu(x)\n"

    def wrong(self, text):
        return self.right(text).replace("relu(x)", "relu(x) * 1.1")

    @pytest.mark.long
    def test_its_own_rules_tell_right_from_wrong(self, tmp_path):
        super().test_its_own_rules_tell_right_from_wrong(tmp_path)

    def test_a_backend_is_a_folder_for_each_overload(self, tmp_path):
        problems = self.suite().problems(self.checkout(tmp_path / "here"))
        kernel = tmp_path / "relu__default" / "relu__default_implementation_v1.py"
        kernel.parent.mkdir()
        kernel.write_text("")
        assert [p.name for p in problems] == ["relu__default"]
        assert self.suite().candidates(tmp_path, problems) == {"relu__default": kernel}

    def test_own_streams_are_flagged(self):
        assert self.suite().flags("with torch.cuda.stream(s): ...") == ("own streams",)
        assert self.suite().flags("x.relu()") == ()


def test_a_recorded_call_is_read_as_it_was_made():
    call = parsed(
        "((T([4, 8], f16, stride=(1, 4)), [8, 4], -1, inf, None), {'dtype': f32, 'device': device('cuda')})"
    )
    assert call.arguments == "x0, [8, 4], -1, float('inf'), None, dtype=torch.float32, device='cpu'"
    assert (call.tensors[0].stride, call.named) == ((1, 4), {8, 4})
    for text in ("T([4], f32)", "((ST([4], f32),), {})", "not a call ("):
        with pytest.raises(TaskError, match=r"recorded call|no argument"):
            parsed(text)


def test_sizes_that_an_argument_counts_do_not_vary():
    def varying(text):
        return sorted(
            re.findall(r"^size_(\d+) = ", problem_of("aten.native_group_norm.default", parsed(text)), re.M)
        )

    assert varying("((T([32, 24, 7], f16), T([24], f16), 2, 1e-05), {})") == ["24", "32", "7"]
    assert varying("((T([32, 24, 7], f16), T([24], f16), 24, 2), {})") == ["32", "7"]
    assert varying("((T([32, 24, 7, 7], f16), T([24], f16), 32, 24, 49, 1), {})") == [], (
        "49 is a product of sizes"
    )
    assert varying("((T([32, 24, 7], f16), 9223372036854775807), {})") == ["24", "32", "7"]


def test_a_call_without_elements_is_no_problem_where_another_has_some():
    empty, some = "((T([0, 4], f16), [T([0], i64)]), {})", "((T([3, 4], f16), [T([2], i64)]), {})"
    assert (
        most_frequent("aten.index.Tensor", {"aten.index.Tensor": Counter({empty: 9, some: 1})}).elements == 14
    )
    with pytest.raises(
        TaskError, match=r"no call of aten\.index\.Tensor is recorded whose tensors have elements"
    ):
        most_frequent("aten.index.Tensor", {"aten.index.Tensor": Counter({empty: 9})})


def test_an_operator_is_called_as_torch_calls_it_now(tmp_path):
    suite, data = get_suite("tritonbench-meta"), made_up_checkout("tritonbench-meta", tmp_path / "data")
    calls = data / "tritonbench/data/input_configs/made_train/up_training.txt"
    calls.write_text("Operator: aten.sum.SymInt\ncnt: 2, ((T([16, 64], f32), [0], True), {})\n")
    (data / "tritonbench/operator_loader/aten/config.yaml").write_text(
        "aten.sum.SymInt: made_train/up_training.txt\n"
    )
    (problem,) = suite.problems(data)
    assert problem.name == "aten_sum_SymInt"
    assert (
        "torch.ops.aten.sum.dim_IntList(x0, [0], True)" in suite.target(data, problem, tmp_path).read_text()
    )


def test_what_is_recorded_is_what_is_read():
    import torch

    text, tensors = recorded((torch.ones(2, 3).t(), 2, [1]), {"dtype": torch.float64})
    assert text == "((T([3, 2], f32, stride=(1, 3)), 2, [1]), {'dtype': f64})"
    assert len(tensors) == len(parsed(text).tensors) == 1
    with pytest.raises(ValueError, match="function"):
        recorded((lambda: 1,), {})


def test_drawn_tensors_have_the_strides_and_ranges_of_the_recorded_ones():
    import torch

    calls = (
        "T([4, 8], f32, stride=(1, 4))", "T([4, 8], f32, stride=(16, 1))", "T([4, 8], f32, stride=(0, 1))",
        "T([2, 3, 4], f32, stride=(3, 1, 6))",
    )  # fmt: skip
    for call in calls:
        space: dict = {}
        exec(problem_of("aten.relu.default", parsed(f"(({call},), {{}})")), space)
        (drawn,) = space["get_inputs"]()
        assert f"stride={drawn.stride()}" in call
        assert -9 <= drawn.min() < drawn.max() <= 9
    text = problem_of("aten.index_select.default", parsed("((T([5, 3], f32), 0, T([40], i64)), {})"))
    exec(text, space)
    index = space["get_inputs"]()[1]
    assert int(index.min()) >= 0 and int(index.max()) <= 2
    assert space["Model"]()(*space["get_inputs"]()).shape == torch.Size([40, 3])
