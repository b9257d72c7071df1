"""What every adapter of a benchmark must do, checked on a small checkout in its layout."""

from pathlib import Path

from ..suites import Suite, fits, setup, theirs_of

_RIGHT = "\n\nclass ModelNew(Model):\n    ...\n"
_WRONG = "\n\nclass ModelNew(Model):\n    def forward(self, *x):\n        return super().forward(*x) * 1.01 + 0.01\n"


class SuiteConformance:
    """Subclass it, name a suite and a checkout, and pytest runs every check.

    The kernels are those of benchmarks in KernelBench's form; others override `right` and `wrong`.
    """

    def suite(self) -> Suite:
        """Return the adapter under test."""
        raise NotImplementedError

    def checkout(self, folder: Path) -> Path:
        """Return a checkout in the benchmark's layout, written into the folder."""
        raise NotImplementedError

    def right(self, text: str) -> str:
        """Return a kernel that is right, from a problem's text."""
        return text + _RIGHT

    def wrong(self, text: str) -> str:
        """Return a kernel that is off by more than any tolerance."""
        return text + _WRONG

    def test_a_checkout_is_recognised(self, tmp_path: Path) -> None:
        """A checkout fits, an empty folder does not."""
        (tmp_path / "empty").mkdir()
        assert fits(self.suite(), self.checkout(tmp_path / "here"))
        assert not fits(self.suite(), tmp_path / "empty")

    def test_problems_have_names_of_their_own(self, tmp_path: Path) -> None:
        """Names are unique and files exist."""
        data = self.checkout(tmp_path)
        problems = self.suite().problems(data)
        assert problems
        assert len({p.name for p in problems}) == len(problems)
        assert all((data / p.file).is_file() and p.suite == self.suite().name for p in problems)

    def test_finished_kernels_are_found(self, tmp_path: Path) -> None:
        """A kernel named like its problem is its candidate, and another file is none."""
        problems = self.suite().problems(self.checkout(tmp_path / "here"))
        kernel = tmp_path / "kernels" / f"{problems[0].name}.py"
        kernel.parent.mkdir(parents=True)
        kernel.write_text("")
        (tmp_path / "kernels" / "unrelated_notes.py").write_text("")
        assert self.suite().candidates(tmp_path / "kernels", problems) == {problems[0].name: kernel}

    def test_its_own_rules_tell_right_from_wrong(self, tmp_path: Path) -> None:
        """Every problem becomes a task, and the benchmark's own verdict on a right and a wrong kernel differs."""
        suite, data = self.suite(), self.checkout(tmp_path)
        with setup(suite, data) as given:
            for problem in suite.problems(data):
                text = (data / problem.file).read_text()
                with given.task(problem) as task:
                    right = theirs_of(given, problem, task, self.right(text))
                    wrong = theirs_of(given, problem, task, self.wrong(text))
                assert right.status == "correct", right.message
                assert right.passed == right.trials >= 1
                assert right.speedup is not None and right.speedup > 0
                assert wrong.status == "wrong", wrong.message
                assert wrong.passed < wrong.trials
