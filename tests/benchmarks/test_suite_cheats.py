"""The table of planted cheats and honest kernels fails where our verdict is wrong about either."""

import pytest

from benchmarks import suite_cheats
from kernelwright.suites import Ours, Row, Theirs


def judging(accepted_cheat: str, refused_honest: str):
    """Stand in for the judge: it is right but for these two."""

    def judge(given, problems, kernels, to):
        ((name, file),) = kernels.items()
        honest = file.parent.name == "honest"
        right = file.stem != refused_honest if honest else file.stem == accepted_cheat
        yield Row(
            suite=given.suite.name, problem=name, group="level1", candidate=str(file), sizes="declared",
            theirs=Theirs(status="correct"), seconds=0.0,
            ours=Ours(verdict="accepted" if right else "rejected", decision="equal"),
        )  # fmt: skip

    return judge


@pytest.mark.parametrize(
    ("accepted_cheat", "refused_honest", "code"), [("", "", 0), ("zeros", "", 1), ("", "plain", 1)]
)
def test_either_mistake_fails(monkeypatch, capsys, accepted_cheat, refused_honest, code):
    monkeypatch.setattr(suite_cheats, "judge_all", judging(accepted_cheat, refused_honest))
    assert suite_cheats.main([]) == code
    told = capsys.readouterr().out.splitlines()
    cheats, honest = (len(list((suite_cheats.HOME / kind).glob("*.py"))) for kind in suite_cheats.KINDS)
    assert (cheats >= 30, honest >= 7, len(told)) == (True, True, cheats + honest + 2)
    assert f"{cheats} cheats: {cheats} correct" in "\n".join(told)
