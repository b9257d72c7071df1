import pytest

from kernelwright.errors import InputError, MissingToolError
from kernelwright.suites import checkout_of, find_checkout, get_suite, suite_names
from kernelwright.testing import SuiteConformance, made_up_checkout


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


def test_every_shipped_adapter_is_tested_here():
    others = {name for name in suite_names() if get_suite(name).repository}
    assert others == {"kernelbench", "multikernelbench"}


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
