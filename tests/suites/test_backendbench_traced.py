"""BackendBench's suite of recorded models: calls of a text or a table become tasks, and all of them are judged by."""

import pytest

from kernelwright.errors import TaskError
from kernelwright.records import Split
from kernelwright.suites import get_suite, setup, theirs_of
from kernelwright.testing import SuiteConformance, made_up_checkout


class TestBackendBenchTraced(SuiteConformance):
    def suite(self):
        return get_suite("backendbench-traced")

    def checkout(self, folder):
        return made_up_checkout("backendbench-traced", folder)

    def right(self, text):
        del text
        return (
            "def add__Tensor_kernel_impl(x, y, *, alpha=1):\n    return x + alpha * y\n\n"
            "def bmm__default_kernel_impl(x, y):\n    return x @ y\n"
        )

    def wrong(self, text):
        return self.right(text).replace("return x", "return 1.1 * x")

    @pytest.mark.long
    def test_its_own_rules_tell_right_from_wrong(self, tmp_path):
        super().test_its_own_rules_tell_right_from_wrong(tmp_path)

    @pytest.mark.long
    def test_a_kernel_that_is_right_on_the_tasks_call_alone_is_wrong(self, tmp_path):
        suite, data = self.suite(), self.checkout(tmp_path)
        problem = suite.problems(data)[0]
        kernel = "def add__Tensor_kernel_impl(x, y, *, alpha=1):\n    return x + 2 * y\n"
        with setup(suite, data) as given, given.task(problem) as task:
            found = theirs_of(given, problem, task, kernel)
        assert (found.status, found.passed, found.trials) == ("wrong", 1, 2)  # the third is too large

    def test_the_most_frequent_call_is_the_task_and_unsupported_operators_are_none(self, tmp_path):
        suite, data = self.suite(), self.checkout(tmp_path)
        problems = suite.problems(data)
        assert [(p.name, p.group) for p in problems] == [
            ("add__Tensor", "made_up"),
            ("bmm__default", "made_up"),
        ]
        with setup(suite, data) as given, given.task(problems[0]) as task:
            (workload,) = task.split(Split.SEARCH)
        x, y = workload.arguments
        assert (x.shape, y.shape) == ((16, 64), (64,))
        assert (x.distribution.kind, x.distribution.low, x.distribution.high) == ("uniform", 0.0, 1.0)

    def test_offsets_that_are_not_recorded_are_no_task(self, tmp_path):
        suite, data = self.suite(), self.checkout(tmp_path / "data")
        trace = data / "traces/made_up.txt"
        trace.write_text(trace.read_text().replace("aten.add.Tensor", "aten._embedding_bag.default"))
        problem = next(p for p in suite.problems(data) if p.name == "_embedding_bag__default")
        with pytest.raises(TaskError, match="offsets whose values are not recorded"):
            suite.target(data, problem, tmp_path)

    @pytest.mark.needs("pyarrow")
    def test_its_data_file_has_the_same_calls_as_a_table(self, tmp_path):
        import pyarrow
        from pyarrow import parquet

        suite, data = self.suite(), self.checkout(tmp_path)
        (data / "traces/made_up.txt").unlink()
        rows = [
            {"uuid": "a", "op_name": "aten.relu_.default", "args": "((T([4, 8], f32),), {})", "count": 3},
            {"uuid": "b", "op_name": "aten.relu_.default", "args": "((T([9], f32),), {})", "count": 2},
            {"uuid": "c", "op_name": "aten.exp.default", "args": "((T([4], f32),), {})", "count": 1},
        ]
        kept = [row | {"included_in_benchmark": row["uuid"] != "c", "is_synthetic": False} for row in rows]
        parquet.write_table(pyarrow.Table.from_pylist(kept), data / "traces/problems.parquet")
        (problem,) = suite.problems(data)
        assert (problem.name, problem.file) == ("relu___default", "traces/problems.parquet")
        with setup(suite, data) as given, given.task(problem) as task:
            assert task.split(Split.SEARCH)[0].arguments[0].shape == (4, 8)
            script = suite.script(task, "", data, problem)
        assert script.given["calls"] == ["((T([4, 8], f32),), {})", "((T([9], f32),), {})"]

    def test_own_streams_are_flagged(self):
        assert self.suite().flags("with torch.cuda.stream(s): ...") == ("own streams",)
