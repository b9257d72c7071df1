from types import SimpleNamespace

import pytest

from kernelwright.api.judge import judging
from kernelwright.errors import InputError
from kernelwright.records import Interval, VerdictStatus
from kernelwright.suites import get_suite, write
from kernelwright.suites.own.edits import Gate, baselines_of, gate_of, lines_of, unmet
from kernelwright.tasks import candidate_of, load_candidate, load_task
from kernelwright.testing import WrittenConformance


class TestEdits(WrittenConformance):
    least = 60

    def suite(self):
        return get_suite("edits")

    def test_four_kinds_of_requests_each_with_a_gate(self, tmp_path):
        write(self.suite(), tmp_path, 0)
        found = {p.name: gate_of((tmp_path / p.file).read_text()) for p in self.suite().problems(tmp_path)}
        assert {g.request for g in found.values()} == {"fix", "tune", "shrink", "port"}
        assert {g.language for g in found.values() if g.request == "port"} == {
            "cpp",
            "opencl",
            "triton",
            "wgsl",
        }
        assert all(g.faster > 1 for g in found.values() if g.request == "tune")
        assert all(g.most_lines > 0 for g in found.values() if g.request == "shrink")

    def test_no_start_meets_its_gate_by_its_text_where_text_decides(self, tmp_path):
        write(self.suite(), tmp_path, 0)
        right = SimpleNamespace(
            verdict=VerdictStatus.ACCEPTED, speedup=Interval(median=1.0, low=1.0, high=1.0)
        )
        for problem in self.suite().problems(tmp_path):
            if problem.group == "fix":
                continue  # the judge tells, below
            task = load_task((tmp_path / problem.file).parent)
            start = candidate_of(task.start, task)
            gate = gate_of((tmp_path / problem.file).read_text())
            assert unmet(gate, start.language, start.sources[0].text, right), problem.name

    def test_known_answers_are_short_enough_and_in_the_right_language(self, tmp_path):
        write(self.suite(), tmp_path, 5)
        answers = self.suite().answers(5)
        assert len(answers) >= 50
        quick = SimpleNamespace(
            verdict=VerdictStatus.ACCEPTED, speedup=Interval(median=2.0, low=1.9, high=2.1)
        )
        for problem in self.suite().problems(tmp_path):
            if problem.name in answers:
                answer = answers[problem.name]
                language = "opencl" if answer.path.endswith(".cl") else "cpp"
                gate = gate_of((tmp_path / problem.file).read_text())
                assert unmet(gate, language, answer.text, quick) == (), problem.name


def test_the_judge_refuses_a_kernel_to_fix_and_accepts_it_mended(tmp_path):
    suite = get_suite("edits")
    write(suite, tmp_path / "data", 2)
    folder = tmp_path / "data" / "fix" / "huber"
    task, gate = load_task(folder), gate_of((folder / "task.py").read_text())
    mended = tmp_path / "huber.cpp"
    mended.write_text(suite.answers(2)["fix/huber"].text)
    with judging(task, device="cpu", baselines=baselines_of(gate), store=tmp_path / "store") as ask:
        wrong = ask(candidate_of(task.start, task), True)
        right = ask(load_candidate(mended, task), True)
    assert unmet(gate, "cpp", task.start[0].text, wrong) == ("it is not right: rejected",)
    assert unmet(gate, "cpp", mended.read_text(), right) == ()


def test_a_gate_says_everything_that_is_not_met():
    gate = Gate(request="tune", language="cpp", faster=1.2, most_lines=1)
    slow = SimpleNamespace(verdict=VerdictStatus.ACCEPTED, speedup=Interval(median=1.5, low=1.1, high=2.0))
    found = unmet(gate, "opencl", "a;\nb;\n", slow)
    assert [part.split(";")[0] for part in found] == [
        "it is written in opencl", "it has 2 lines", "it is at least 1.10 times as fast as the start",
    ]  # fmt: skip
    with pytest.raises(InputError, match="no problem of the suite edits"):
        gate_of("def f(x):\n    return x\n")
    assert lines_of("// a\n{\n}\n  b;\n") == 1
