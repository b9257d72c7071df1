import json
import sys
from pathlib import Path

import pytest
import torch

from kernelwright.errors import InputError, MissingToolError, TaskError
from kernelwright.records import Candidate, SourceFile, Split
from kernelwright.suites import (
    Ours,
    Row,
    checkout_of,
    find_checkout,
    get_suite,
    setup,
    suite_names,
    theirs_of,
)
from kernelwright.suites.flashinferbench import solution_of, trace_of
from kernelwright.tasks import load_candidate
from kernelwright.testing import SuiteConformance, made_up_checkout

RUN = Candidate(
    sources=(SourceFile(path="k.py", text="def run(a, b, shift):\n    return a + b * 2.0 + shift\n"),),
    language="torch",
    entry="k.py:run",
)
"""A kernel of ours for the made-up problem of reference-kernels."""


class TestKernelBench(SuiteConformance):
    def suite(self):
        return get_suite("kernelbench")

    def checkout(self, folder):
        return made_up_checkout("kernelbench", folder)

    def test_kernels_named_by_its_own_scripts_are_found(self, tmp_path):
        problems = self.suite().problems(self.checkout(tmp_path / "here"))
        kernel = tmp_path / "level_2_problem_2_sample_0_kernel.py"
        kernel.write_text("")
        assert self.suite().candidates(tmp_path, problems)["level2/2_Max_Subtract"] == kernel

    def test_its_static_checker_flags_what_it_flags(self):
        flags = self.suite().flags
        assert flags("import threading\n") == ("thread_injection",)
        assert flags("class T(torch.Tensor): ...\n") == ("lazy_eval",)
        assert flags("time.perf_counter = f\n") == ("timing_event_patch",)
        assert flags("y = bypassed(x)  # try: pass\n") == ()


class TestMultiKernelBench(SuiteConformance):
    def suite(self):
        return get_suite("multikernelbench")

    def checkout(self, folder):
        return made_up_checkout("multikernelbench", folder)

    def test_of_groups_of_inputs_the_largest_that_is_not_too_large_is_the_task(self, tmp_path):
        data = self.checkout(tmp_path)
        problem = next(p for p in self.suite().problems(data) if p.group == "npukernelbench_level0")
        with setup(self.suite(), data) as given, given.task(problem) as task:
            assert [tuple(s.shape) for s in task.split(Split.SEARCH)[0].arguments] == [(16, 32)]


class OfModel(SuiteConformance):
    """Kernels that are a `ModelNew` alone, since a problem's file is not in KernelBench's form."""

    __test__ = False

    def right(self, text):
        return "class ModelNew(Model):\n    ...\n"

    def wrong(self, text):
        return "class ModelNew(Model):\n    def forward(self, *x):\n        return super().forward(*x) * 1.01 + 0.01\n"


class TestAgentKernelArena(OfModel):
    __test__ = True

    def suite(self):
        return get_suite("agentkernelarena")

    def checkout(self, folder):
        return made_up_checkout("agentkernelarena", folder)

    def test_of_cases_the_largest_that_is_not_too_large_is_the_task_and_all_those_are_compared(
        self, tmp_path
    ):
        data = self.checkout(tmp_path)
        problem = self.suite().problems(data)[0]
        assert (problem.name, problem.group) == ("gpumode/12_Scaled", "gpumode")
        last = "class ModelNew(Model):\n    def forward(self, x):\n        return super().forward(x) * (x.dim() < 3)\n"
        with setup(self.suite(), data) as given, given.task(problem) as task:
            assert [tuple(s.shape) for s in task.split(Split.SEARCH)[0].arguments] == [(16, 64)]
            found = theirs_of(given, problem, task, last)
        assert (found.status, found.passed, found.trials) == ("wrong", 2, 3)

    def test_a_workspace_without_a_module_says_so(self, tmp_path):
        data = self.checkout(tmp_path)
        problem = self.suite().problems(data)[0]
        (data / problem.file).write_text("x = 1\n")
        with pytest.raises(TaskError, match="defines no class"):
            self.suite().target(data, problem, tmp_path / "there")


class TestLiger(OfModel):
    __test__ = True

    def suite(self):
        return get_suite("liger")

    def checkout(self, folder):
        return made_up_checkout("liger", folder)

    @pytest.mark.long
    def test_its_own_rules_tell_right_from_wrong(self, tmp_path):
        super().test_its_own_rules_tell_right_from_wrong(tmp_path)

    def test_what_a_set_up_function_holds_are_arguments_and_weights(self, tmp_path):
        data, made = self.checkout(tmp_path), {}
        for problem in self.suite().problems(data):
            text = self.suite().target(data, problem, tmp_path).read_text()
            made[problem.group] = space = {}
            exec(text.replace("4096", "16").replace("tokens = 1024", "tokens = 8"), space)
        loss, layer = made["loss"], made["layer"]
        assert [tuple(x.shape) for x in loss["get_inputs"]()] == [(8, 16), (8, 16)]
        x, target = torch.ones(8, 16), torch.zeros(8, 16)
        assert torch.equal(loss["Model"]()(x, target), x)
        assert [*layer["Model"]().state_dict()] == ["kw_call.weight"]
        assert layer["Model"]()(x)[0, 0] == 1 / 1.5

    def test_a_reference_in_its_tests_is_named(self, tmp_path):
        data = self.checkout(tmp_path)
        problem = self.suite().problems(data)[0]
        (data / problem.file).write_text("def setup_x(input):\n    from test.a import B\n")
        with pytest.raises(TaskError, match="needs Triton or is not in this checkout"):
            self.suite().target(data, problem, tmp_path)


class TestRobustKBench(OfModel):
    __test__ = True

    def suite(self):
        return get_suite("robust-kbench")

    def checkout(self, folder):
        return made_up_checkout("robust-kbench", folder)

    def test_the_configuration_is_that_of_the_task(self, tmp_path):
        data = self.checkout(tmp_path)
        with setup(self.suite(), data) as given, given.task(self.suite().problems(data)[0]) as task:
            (workload,) = task.split(Split.SEARCH)
            assert [tuple(s.shape) for s in (*workload.arguments, *workload.state)] == [(8, 32), (32,), (32,)]

    def test_a_kernel_has_to_be_right_in_every_setting_and_ours_takes_the_reference_where_it_was_not_made_for(
        self, tmp_path
    ):
        data = self.checkout(tmp_path)
        problem = self.suite().problems(data)[0]
        several = {
            "multi_input_configs": [{"rows": 8}, {"rows": 4}],
            "multi_shared_configs": [{"features": 64}],
        }
        file = data / problem.file.replace("func_", "config_").replace(".py", ".json")
        file.write_text(json.dumps(json.loads(file.read_text()) | several))
        only = "\n\nclass ModelNew(Model):\n    def forward(self, x):\n        y = super().forward(x)\n"
        only += "        return y if x.shape == (8, 32) else y + 1\n"
        source = SourceFile(
            path="k.py", text="def run(x, weight, bias):\n    return (x * weight + bias)[:8, :32]\n"
        )
        made = Candidate(sources=(source,), language="torch", entry="k.py:run")
        with setup(self.suite(), data) as given, given.task(problem) as task:
            found = theirs_of(given, problem, task, only)
            ours = theirs_of(given, problem, task, self.suite().submission(task, made).text)
        assert (found.status, found.passed, found.trials) == ("wrong", 5, 10)
        assert "'rows': 8, 'features': 64" in found.message
        assert (ours.status, ours.trials) == ("correct", 15)

    def test_filters_name_a_task_whose_inputs_do_not_matter_and_what_a_model_said(self, tmp_path):
        data = self.checkout(tmp_path)
        problem = self.suite().problems(data)[0]
        file = data / problem.file
        file.write_text(file.read_text().replace("x * weight + bias", "x * 0 + weight"))
        file.with_name("filter_results.json").write_text('{"filter_llm_redundancy": true}')
        with setup(self.suite(), data) as given, given.task(problem) as task:
            found = theirs_of(given, problem, task, self.right(""))
        assert found.status == "correct"
        assert found.flags == ("filter: redundant", "filter: output axes", "filter: input impact")


class TestReferenceKernels(SuiteConformance):
    def suite(self):
        return get_suite("reference-kernels")

    def checkout(self, folder):
        return made_up_checkout("reference-kernels", folder)

    def right(self, text):
        return "def custom_kernel(data):\n    return data[0] + data[1] * 2.0 + data[3].by\n"

    def wrong(self, text):
        return "def custom_kernel(data):\n    return data[0]\n"

    def test_a_submission_is_called_on_the_data_as_the_benchmark_passes_it(self, tmp_path):
        data, file = self.checkout(tmp_path / "data"), tmp_path / "submission.py"
        file.write_text(
            "def custom_kernel(data):\n    a, b, config, shift = data\n    return a + b * config['scale'] + shift.by\n"
        )
        with setup(self.suite(), data) as given, given.task(self.suite().problems(data)[0]) as task:
            candidate = self.suite().candidate(task, file)
            found = theirs_of(given, self.suite().problems(data)[0], task, self.suite().submission(task, RUN))
        assert {s.path for s in candidate.sources} >= {
            "entry.py",
            "submission.py",
            "problem.py",
            "reference.py",
        }
        assert found.status == "correct", found.message

    def test_what_looks_at_values_while_it_draws_is_drawn_for_real(self, tmp_path):
        data = self.checkout(tmp_path)
        file = data / "problems" / "pmpp_v2" / "addition" / "reference.py"
        file.write_text(
            file.read_text().replace("    return a, b,", "    a = a * b.max().item()\n    return a, b,")
        )
        with setup(self.suite(), data) as given, given.task(self.suite().problems(data)[0]) as task:
            assert tuple(task.split(Split.SEARCH)[0].arguments[0].shape) == (256, 256)

    def test_sizes_that_no_memory_holds_are_shrunk_before_anything_is_drawn(self, tmp_path):
        data = self.checkout(tmp_path)
        file = data / "problems" / "pmpp_v2" / "addition" / "task.yml"
        file.write_text(file.read_text().replace('"size": 256', '"size": 1048576'))
        with (
            setup(self.suite(), data, max_elements=10_000) as given,
            given.task(self.suite().problems(data)[0]) as task,
        ):
            (workload,) = task.split(Split.SEARCH)
            assert [len(spec.shape) for spec in workload.arguments] == [2, 2, 1]
            assert max(workload.arguments[0].shape) < 100

    def test_a_missing_reader_of_yaml_is_told_with_the_command_that_gets_it(self, monkeypatch, tmp_path):
        data = self.checkout(tmp_path)
        monkeypatch.setitem(sys.modules, "yaml", None)
        with (
            setup(self.suite(), data) as given,
            pytest.raises(MissingToolError, match=r"kernelwright\[suites\]"),
            given.task(self.suite().problems(data)[0]),
        ):
            pass


class TestFlashInferBench(SuiteConformance):
    def suite(self):
        return get_suite("flashinfer-bench")

    def checkout(self, folder):
        return made_up_checkout("flashinfer-bench", folder)

    def right(self, text):
        return "import torch\n\ndef run(x, w):\n    return torch.softmax(x, 1) * w\n"

    def wrong(self, text):
        return "import torch\n\ndef run(x, w):\n    return torch.softmax(x, 1)\n"

    def test_solutions_are_found_judged_and_written(self, tmp_path):
        suite, data = self.suite(), self.checkout(tmp_path / "data")
        (problem,) = suite.problems(data)
        wanted = Candidate(
            sources=(SourceFile(path="k.py", text=self.right("")),), language="torch", entry="k.py:run"
        )
        file = tmp_path / "solutions" / "one.json"
        file.parent.mkdir()
        file.write_text(json.dumps(solution_of(wanted, problem.name)))
        assert suite.candidates(file.parent, (problem,)) == {problem.name: file}
        with setup(suite, data) as given, given.task(problem) as task:
            assert len(task.split(Split.SEARCH)) == 2
            assert load_candidate(file, task).key == wanted.key
            found = theirs_of(given, problem, task, file.read_text())
        assert found.status == "correct", found.message
        row = Row(
            suite=suite.name, problem=problem.name, group="scale", candidate="one", sizes="declared", theirs=found,
            ours=Ours(verdict="unknown", decision="unknown"), seconds=0.0,
        )  # fmt: skip
        trace = trace_of(row, {"axes": {"rows": 4}}, hardware="cpu", at="2026-01-01T00:00:00")
        assert trace["evaluation"]["status"] == "PASSED"
        assert trace["evaluation"]["performance"]["speedup_factor"] == found.speedup


def test_of_a_file_with_more_than_its_function_the_function_is_the_kernel(tmp_path):
    suite, data, file = (
        get_suite("flashinfer-bench"),
        made_up_checkout("flashinfer-bench", tmp_path),
        tmp_path / "k.py",
    )
    file.write_text("class ModelNew: ...\n\ndef run(x, w):\n    return x * w\n")
    with setup(suite, data) as given, given.task(suite.problems(data)[0]) as task:
        assert suite.candidate(task, file).entry == "k.py:run"


def test_a_definition_without_workloads_gets_a_small_one(tmp_path):
    suite, data = get_suite("flashinfer-bench"), made_up_checkout("flashinfer-bench", tmp_path)
    (problem,) = suite.problems(data)
    text = json.loads((data / problem.file).read_text())
    text["axes"] |= {"ends": {"type": "var"}, "pages": {"type": "var"}, "page": {"type": "const", "value": 4}}
    text["axes"]["kept"] = {"type": "const", "value": 90}
    text["inputs"] |= {
        "scale": {"shape": None, "dtype": "float32"},
        "kept": {"shape": None, "dtype": "int64"},
        "ends": {"shape": ["ends"], "dtype": "float32"},
        "table": {"shape": ["rows", "pages"], "dtype": "float32"},
    }
    text |= {
        "constraints": ["ends == rows + 1", "kept <= pages * page"],
        "reference": "def run(x, w, scale, kept, ends, table):\n    return x * scale\n",
    }
    (data / problem.file).write_text(json.dumps(text))
    (data / "workloads/scale/scale_n64.jsonl").unlink()
    with setup(suite, data) as given, given.task(problem) as task:
        (workload,) = task.split(Split.SEARCH)
        assert [workload.axes[name] for name in ("rows", "ends", "pages")] == [16, 17, 23]
        assert [a.value for a in workload.arguments if a.name in {"scale", "kept"}] == [0.125, 90]


class TestSOLExecBench(TestFlashInferBench):
    def suite(self):
        return get_suite("sol-execbench")

    def checkout(self, folder):
        return made_up_checkout("sol-execbench", folder)

    @pytest.mark.long
    def test_solutions_are_found_judged_and_written(self, tmp_path):
        super().test_solutions_are_found_judged_and_written(tmp_path)

    @pytest.mark.long
    def test_the_tolerances_of_a_workload_count(self, tmp_path):
        suite, data = self.suite(), self.checkout(tmp_path)
        (problem,) = suite.problems(data)
        right = (
            self.right("")
            .replace("return ", "y = ")
            .replace("* w\n", "* w\n    y[0, 0] += OFF\n    return y\n")
        )
        said = []
        with setup(suite, data) as given, given.task(problem) as task:
            for off in ("0.2", "2.0"):
                said.append(theirs_of(given, problem, task, right.replace("OFF", off)).status)
        assert said == ["correct", "wrong"], "a tenth may be off, by at most 0.5"


class TestTritonBench(SuiteConformance):
    def suite(self):
        return get_suite("tritonbench")

    def checkout(self, folder):
        return made_up_checkout("tritonbench", folder)

    def right(self, text):
        return text

    def wrong(self, text):
        return text.replace("* scale", "* scale * 1.01")

    def test_a_function_is_called_on_the_arguments_of_the_test(self, tmp_path):
        suite, data, file = self.suite(), self.checkout(tmp_path / "data"), tmp_path / "scaled_relu.py"
        file.write_text("import torch\n\ndef scaled_relu(x, scale=1.0):\n    return torch.relu(x) * scale\n")
        (problem,) = suite.problems(data)
        with setup(suite, data) as given, given.task(problem) as task:
            (workload,) = task.split(Split.SEARCH)
            assert [s.shape for s in workload.arguments] == [(4, 8)]
            assert suite.candidate(task, file).entry == "entry.py:run"

    def test_a_test_that_fails_further_on_gives_a_task_and_no_verdict_of_the_benchmark(self, tmp_path):
        suite, data = self.suite(), self.checkout(tmp_path)
        (problem,) = suite.problems(data)
        file = data / problem.file
        file.write_text(
            file.read_text().replace("    print(", "    raise RuntimeError('not on a CPU')\n    print(")
        )
        with setup(suite, data) as given, given.task(problem) as task:
            found = theirs_of(given, problem, task, file.read_text())
        assert (found.status, "with the reference too" in found.message) == ("unknown", True)


def test_every_shipped_adapter_is_tested():
    texts = [file.read_text() for file in Path(__file__).parent.glob("test_*.py")]
    others = [name for name in suite_names() if get_suite(name).repository]
    assert [name for name in others if not any(f'made_up_checkout("{name}"' in text for text in texts)] == []


def test_a_missing_checkout_is_told_with_the_command_that_gets_it(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_SUITES", str(tmp_path))
    with pytest.raises(MissingToolError, match=r"git clone .*ScalingIntelligence/KernelBench"):
        checkout_of(get_suite("kernelbench"))
    with pytest.raises(InputError, match="lacks KernelBench/level1"):
        checkout_of(get_suite("kernelbench"), tmp_path)


def test_a_checkout_is_found_by_the_repositorys_name(monkeypatch, tmp_path):
    made_up_checkout("kernelbench", tmp_path / "KernelBench")
    monkeypatch.setenv("KERNELWRIGHT_SUITES", str(tmp_path))
    assert find_checkout(get_suite("kernelbench")) == tmp_path / "KernelBench"
