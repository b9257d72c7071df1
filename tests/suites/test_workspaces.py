import pytest

from kernelwright.errors import TaskError
from kernelwright.records import Split
from kernelwright.suites import get_suite, setup
from kernelwright.suites.autokernel import kinds_in
from kernelwright.suites.fastkernels import alone
from kernelwright.suites.rules.autokernel import verdict
from kernelwright.suites.rules.fastkernels import verdict as verdict_in_model
from kernelwright.testing import SuiteConformance, made_up_checkout

SCALED = "import random\n\nimport torch\n\n\ndef kernel_fn(x, weight):\n    return torch.tanh(x) * weight\n"


class TestAutoKernel(SuiteConformance):
    def suite(self):
        return get_suite("autokernel")

    def checkout(self, folder):
        return made_up_checkout("autokernel", folder)

    def right(self, text):
        return "import torch\n\n\ndef kernel_fn(**x):\n    a, b = x.values()\n    return WHAT\n".replace(
            "WHAT", "torch.tanh(a) * b if 'x' in x else a @ b"
        )

    def wrong(self, text):
        return self.right(text).replace("return ", "return 1.01 * (").replace("@ b\n", "@ b) + 0.01\n")

    @pytest.mark.long
    def test_its_own_rules_tell_right_from_wrong(self, tmp_path):
        super().test_its_own_rules_tell_right_from_wrong(tmp_path)

    @pytest.mark.long
    def test_a_workspace_is_judged_at_the_sizes_of_its_model(self, tmp_path):
        data = self.checkout(tmp_path)
        problems = self.suite().problems(data)
        assert [p.name for p in problems] == ["scaled", "product", "workspace/kernel_scaled_1"]
        with setup(self.suite(), data) as given:
            for problem, shape in ((problems[0], (64, 128)), (problems[2], (24, 40))):
                with given.task(problem) as task:
                    assert tuple(task.split(Split.SEARCH)[0].arguments[0].shape) == shape

    @pytest.mark.parametrize(
        ("change", "stage"),
        [
            ("", ""),
            ("* (x.dtype is torch.float32)", "smoke"),
            ("* (x.shape[0] < 60)", "sizes"),
            ("* (x.abs().max() < 100)", "hard"),
            ("+ random.random() * 5e-4 * (x.dtype is torch.float16)", "repeats"),
            ("* (x.shape[1] != 33)", "edges"),
        ],
    )
    def test_each_of_its_stages_finds_what_it_looks_for(self, tmp_path, change, stage):
        data = self.checkout(tmp_path)
        problem = self.suite().problems(data)[0]
        kernel = SCALED.replace("* weight\n", f"* weight {change}\n")
        text = self.suite().target(data, problem, tmp_path).read_text()
        kind = kinds_in((data / "bench.py").read_text())["scaled"]
        found = verdict(
            {
                "files": [{"name": "reference", "text": (data / "reference.py").read_text()}], "reference": text,
                "submission": kernel, "sizes": kind.sizes, "edges": kind.edges, "dtypes": kind.dtypes,
                "tolerances": kind.tolerances, "size": kind.sizes[0][1], "dtype": "float32", "timed": 1, "seed": 42,
                "globals": {},
            }
        )  # fmt: skip
        assert found["status"] == ("wrong" if stage else "correct")
        assert found.get("message", "").partition(":")[0] == stage

    def test_the_file_that_an_agent_edits_is_the_kernel_of_its_type(self, tmp_path):
        data = self.checkout(tmp_path / "here")
        edited = tmp_path / "there" / "kernel.py"
        edited.parent.mkdir()
        edited.write_text('KERNEL_TYPE = "product"\n')
        assert self.suite().candidates(edited.parent, self.suite().problems(data)) == {"product": edited}

    @pytest.mark.long
    def test_kernels_for_a_gpu_are_called_by_the_names_of_arguments(self, tmp_path):
        data = self.checkout(tmp_path)
        kernel = tmp_path / "scaled.py"
        kernel.write_text(
            SCALED.replace("(x, weight)", "(weight, x)").replace(
                "    return", "    assert x.is_cuda\n    return"
            )
        )
        problem = self.suite().problems(data)[0]
        with setup(self.suite(), data) as given, given.task(problem) as task:
            made = self.suite().candidate(task, kernel)
            assert made.style == "function" and "kernel_fn(x=x, weight=weight)" in made.sources[0].text
            kernel.write_text("x = 1\n")
            with pytest.raises(TaskError, match="defines no 'kernel_fn'"):
                self.suite().candidate(task, kernel)


class TestFastKernels(SuiteConformance):
    def suite(self):
        return get_suite("fastkernels")

    def checkout(self, folder):
        return made_up_checkout("fastkernels", folder)

    def right(self, text):
        return text

    def wrong(self, text):
        return text.replace("self.bias)\n", "self.bias) * 1.01\n").replace("return x\n", "return x * 1.01\n")

    @pytest.mark.long
    def test_its_own_rules_tell_right_from_wrong(self, tmp_path):
        super().test_its_own_rules_tell_right_from_wrong(tmp_path)

    @pytest.mark.long
    def test_a_kernel_takes_an_operators_place_in_its_architecture(self, tmp_path):
        data = self.checkout(tmp_path / "here")
        problems = self.suite().problems(data)
        assert [p.name for p in problems] == ["dlrmv2/L1/linear", "dlrmv2/L2/mlp"]
        kernel = tmp_path / "kernels" / "L1" / "linear.py"
        kernel.parent.mkdir(parents=True)
        text = (data / problems[0].file).read_text()
        kernel.write_text(text)
        assert self.suite().candidates(tmp_path / "kernels", problems) == {"dlrmv2/L1/linear": kernel}
        with setup(self.suite(), data) as given, given.task(problems[0]) as task:
            made = self.suite().candidate(task, kernel)
            assert (made.style, made.entry) == ("module", "entry.py:ModelNew")
            kernel.write_text("class Other: ...\n")
            with pytest.raises(TaskError, match="defines no class 'Linear'"):
                self.suite().candidate(task, kernel)

    def judged(self, data, problem, folder, kernel):
        text = self.suite().target(data, problem, folder).read_text()
        names = ["MLP"] if problem.name.endswith("mlp") else ["Linear"]
        return verdict_in_model(
            {
                "reference": text, "submission": alone(kernel), "names": names, "seed": 0, "trials": 1,
                "timed": 1, "tolerance": 1e-3, "globals": {},
            }
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("by", "said"),
        [
            pytest.param("", "", marks=pytest.mark.long),
            ("* 1.0004", "the model drifts"),
            ("* (1 + 0.01 * (self.bias.numel() == 1))", "net.top.layers.1 differs"),
        ],
    )
    def test_a_place_or_the_model_tells_a_wrong_kernel(self, tmp_path, by, said):
        data = self.checkout(tmp_path)
        problem = self.suite().problems(data)[0]
        kernel = (data / problem.file).read_text().replace("self.bias)\n", f"self.bias) {by}\n")
        found = self.judged(data, problem, tmp_path, kernel)
        assert found["status"] == ("wrong" if said else "correct")
        assert found.get("message", "").startswith(said)

    @pytest.mark.long
    def test_operators_that_a_kernel_imports_are_those_of_the_architecture(self, tmp_path):
        data = self.checkout(tmp_path)
        problem = self.suite().problems(data)[1]
        text = (data / problem.file).read_text()
        assert "from kw_zoo import Linear" in alone(text)
        assert self.judged(data, problem, tmp_path, text)["status"] == "correct"
