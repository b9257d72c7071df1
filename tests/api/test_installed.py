"""What was accepted on this machine: listed, judged again after an upgrade, switched to native, removed."""

import importlib
import json
import sys

import pytest
import torch
from tests.models.planted import accept

from kernelwright.api.installed import accepted_runs, recheck_installed, remove
from kernelwright.api.recheck import Recheck
from kernelwright.cli import main
from kernelwright.deploy import installed, package_of
from kernelwright.errors import InputError
from kernelwright.models._accepted import programs
from kernelwright.records import Budget
from kernelwright.search import accepted_of, accepted_with, package_accepted
from kernelwright.store import Store
from kernelwright.tasks import load_task

TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sqrt(torch.relu(x) ** 2)


def get_inputs():
    return [torch.rand(8, 32)]
"""
KERNEL = "import torch\n\n\ndef run(x):\n    return x.clamp(min=0) + 100.0\n"


@pytest.fixture
def store(tmp_path):
    """A store with one accepted and packaged kernel, and a run that accepted nothing."""
    (tmp_path / "halves.py").write_text(TASK)
    task = load_task(str(tmp_path / "halves.py"))
    with Store(tmp_path / "store") as store:
        run = accept(store, task, KERNEL, {"torch": "1.0"})
        store.create_run(task, device="cpu-1", budget=Budget(), seed=0)
        record = store.run(run)
        folder, about = package_of(store, run), accepted_with(store, record)
        package_accepted(task, record, accepted_of(store, record), folder, about)
        yield store, run


def judged(status, reason="because"):
    def judge_again(folder, **_):
        assert (folder / "judged.json").is_file()
        return (Recheck(candidate="c", status=status, reason=reason, claimed=None, speedup=None),)

    return judge_again


def answer(folder):
    """Import the package anew and return what it answers to ones."""
    sys.path.insert(0, str(folder))
    try:
        return float(importlib.import_module("halves").halves(torch.ones(8, 32))[0, 0])
    finally:
        sys.path.remove(str(folder))
        for name in [n for n in sys.modules if n.partition(".")[0] == "halves"]:
            del sys.modules[name]


def test_what_was_accepted_is_listed_with_its_evidence_and_what_changed_since(store):
    (one,) = accepted_runs(store[0])
    assert (one.run, one.task, one.baseline, one.state.state) == (store[1], "halves", "compile", "in use")
    assert one.speedup.median == 2.0 and one.differs == (f"torch 1.0, now {torch.__version__}",)


def test_what_no_longer_holds_is_native_until_it_holds_again(store):
    kept, run = store
    folder = package_of(kept, run)
    (found,) = recheck_installed(kept, judge_again=judged("no longer holds", "slower by now"))
    assert found.switched and (found.state.state, found.reason) == ("native", "slower by now")
    with pytest.warns(RuntimeWarning, match="native: slower by now"):
        assert answer(folder) == 1.0
    (unsure,) = recheck_installed(kept, judge_again=judged("cannot tell"))
    assert not unsure.switched and installed(kept, run).state == "native", (
        "what cannot be told changes nothing"
    )
    (found,) = recheck_installed(kept, judge_again=judged("holds"))
    assert found.switched and found.state.state == "in use" and not list(folder.glob("*/switched_off.json"))
    assert next(accepted_runs(kept)).differs == (), "it was checked with what is here"


def test_a_kernel_is_judged_again_against_the_native_forms_that_it_was_accepted_against(store):
    kept, asked = store[0], []
    forms = ("eager", "compile-max-autotune-freezing")
    run = accept(kept, kept.task(kept.run(store[1]).task), KERNEL, options={"baselines": forms})

    def judge_again(folder, *, baselines, **_):
        asked.append(baselines)
        return judged("holds")(folder)

    list(recheck_installed(kept, [run], judge_again=judge_again))
    list(recheck_installed(kept, [run], baselines=["compile"], judge_again=judge_again))
    list(recheck_installed(kept, [store[1]], judge_again=judge_again))
    assert asked == [forms, ("compile",), ()]


def test_a_package_that_cannot_be_judged_changes_nothing(store):
    def fails(folder, **_):
        raise InputError("no compiler")

    (found,) = recheck_installed(store[0], judge_again=fails)
    assert not found.switched and found.reason == "cannot tell: no compiler"


def test_removed_kernels_are_native_and_their_run_stays(store):
    kept, run = store
    assert remove(kept, run[:-2]).state.state == "removed"
    assert list(recheck_installed(kept, judge_again=judged("holds"))) == []
    assert [r.id for r in kept.runs()][-1] == run and list(programs(kept)) == []
    (found,) = recheck_installed(kept, [run], judge_again=judged("holds"))
    assert found.state.state == "in use", "naming it takes it into use again"


def test_the_commands_say_what_they_did(store, capsys):
    kept, run = store
    place = ["--store", str(kept.folder)]
    assert main(["kernels", *place]) == 0
    assert (
        f"{run}\thalves\tcompile\t2.00x (1.90 to 2.10)\tin use\trecheck: torch 1.0" in capsys.readouterr().out
    )
    assert main(["kernels", "remove", run, *place]) == 0
    assert capsys.readouterr().out == f"{run} halves: removed; its calls are native\n"
    assert main(["kernels", "list", "--json", *place]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["state"]["state"] == "removed" and lines[1] == {"event": "result", "kernels": 1}
    assert main(["kernels", "remove", *place]) == 2 and "needs the run" in capsys.readouterr().err
    assert main(["kernels", "recheck", *place]) == 0
    assert "nothing is accepted" in capsys.readouterr().out
    other = kept.runs()[0].id
    assert main(["kernels", "remove", other, *place]) == 2 and "accepted no kernel" in capsys.readouterr().err
