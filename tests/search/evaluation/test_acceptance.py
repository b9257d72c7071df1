"""The acceptance from end to end in real workers: a faster kernel, an equal one, a wrong one."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.errors import BusyError
from kernelwright.languages import get_language
from kernelwright.languages.torch import Torch
from kernelwright.measure import decide
from kernelwright.measure._carry_over import classes_of
from kernelwright.records import (
    Block,
    Bound,
    BoundTerm,
    Candidate,
    CheckStatus,
    Evaluation,
    Finding,
    ServedSizes,
    SourceFile,
    Split,
    Timing,
)  # fmt: skip
from kernelwright.sandbox import Pool
from kernelwright.search.evaluation import acceptance
from kernelwright.search.evaluation._assignment import speedups
from kernelwright.search.evaluation.acceptance import Acceptance
from kernelwright.search.session._result import judgement_of
from kernelwright.tasks import Problem, load_task

SLOW = """
import torch
import torch.nn as nn

rows, dim = 64, 128

class Model(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        for _ in range(200):
            y = y + x
        return y

def get_inputs():
    return [torch.randn(rows, dim)]

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("acceptance")
    (folder / "slow_sum.py").write_text(SLOW)
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(folder)})
    problem = Problem(load_task(str(folder / "slow_sum.py")))
    with Acceptance(problem, detect("cpu"), (), ("eager",), settings=settings) as judge:
        judge.problem = problem
        yield judge


def made(body):
    candidate = Candidate(
        sources=(SourceFile(path="c.py", text=f"import torch\n{body}"),), language="torch", entry="c.py:run"
    )
    return candidate, get_language("torch").build(candidate)


@pytest.fixture(scope="module")
def verdicts():
    """What tests of `verified_once` share, by candidate, depth and checks that are left out."""
    return {}


@pytest.fixture
def verified_once(verdicts, monkeypatch):
    """Let tests of what follows a verification share it: a candidate's is made once to each depth, some six seconds."""
    real = acceptance.verify

    def shared(problem, candidate, build, **options):
        key = candidate.key, options["depth"], options["disabled"]
        if key not in verdicts:
            verdicts[key] = real(problem, candidate, build, **options)
        elif verdicts[key].status == "accepted":
            options["on_right"]()
        return verdicts[key]

    monkeypatch.setattr(acceptance, "verify", shared)


FAST = made("def run(x):\n    return (x.double() * 200).float()\n")
TWICE = made(
    "def run(x):\n    for _ in range(2):\n        y = torch.zeros_like(x)\n"
    "        for _ in range(200):\n            y = y + x\n    return y\n"
)
WRONG = made("def run(x):\n    return x * 199\n")


@pytest.mark.alone
def test_a_much_faster_kernel_is_improved_and_recomputed_alike(judge):
    found = judge.accept(*FAST)
    assert found.decision.status == "improved", (found.decision, found.verdict.findings)
    assert found.decision.confirmed
    assert found.decision.speedup.low > 1
    assert {"verify", "admit", "measure", "confirm"} <= set(found.stages_s)
    stored = Evaluation.from_json(found.to_json())
    again = decide(stored.timing, stored.verdict, [], judge.problem.task.contract)
    assert again == found.decision
    variants = {variant.name: variant.content for variant in found.timing.variants}
    assert variants["candidate"] == FAST[0].key


@pytest.mark.long
@pytest.mark.alone
def test_sizes_around_an_accepted_kernel_are_opened_in_a_step_of_their_own(judge, monkeypatch):
    name = judge.problem.task.workloads[0].name
    found = judge.accept(*FAST)
    assert found.sizes == () and "sizes" not in found.stages_s
    asked, wrong = [], Finding(check="sizes", status=CheckStatus.FAIL, message="wrong at dim 3")
    served = ServedSizes(workload=name, arguments=())
    answers = [((served,), ()), ((), (wrong,))]
    monkeypatch.setattr(
        judge._elsewhere, "open", lambda *given: asked.append(given) or answers[len(asked) - 1]
    )
    widened = judge.widen(found)
    assert widened.sizes == (served,) and widened.decision == found.decision and "sizes" in widened.stages_s
    assert asked[0][0] == FAST[0] and [w.name for w in asked[0][2]] == [name]
    refused = judge.widen(found)
    assert refused.decision.status == "rejected" and refused.verdict.failure == "sizes"
    assert judge.widen(refused) is refused and len(asked) == 2, "nobody looks at what was not accepted"


@pytest.mark.long
@pytest.mark.alone
def test_peaks_are_measured_again_before_an_alarm_is_believed(judge, monkeypatch):
    name = judge.problem.task.workloads[0].name
    planted, right = (
        Bound(
            workload=name,
            device="d",
            terms=(BoundTerm(name="dram", amount=us, unit="bytes", peak=1e6, source="planted"),),
        )
        for us in (1e9, 1e-3)
    )
    asked = []
    monkeypatch.setattr(acceptance, "peaks_of", lambda *_, refresh: asked.append(refresh))
    monkeypatch.setattr(acceptance, "bound", lambda *_: right)
    monkeypatch.setattr(judge, "_bounds", (planted,))
    found = judge.accept(*FAST, workloads=[name])
    assert asked == [True]
    assert found.decision.alarms == ()
    assert found.decision.status == "improved", found.decision


def test_twice_the_work_is_not_improved(judge):
    assert judge.screen(*TWICE).decision.status != "improved"
    assert judge.accept(*TWICE).decision.status != "improved"


def test_what_is_only_interpreted_here_is_verified_and_never_timed(judge, monkeypatch):
    monkeypatch.setattr(Torch, "timeable", lambda *_: False)
    monkeypatch.setattr(judge, "_find_bounds", lambda: pytest.fail("bounds are of use to times alone"))
    begun = []
    monkeypatch.setattr(judge._pool, "prepare", lambda baselines=(), **_: begun.extend(baselines))
    for found in (judge.screen(*TWICE), judge.accept(*TWICE)):
        assert (found.decision.status, found.timing) == ("unknown", None)
        assert "torch is interpreted on cpu" in found.decision.reason
        assert [f.check for f in found.verdict.findings if f.status != "pass"] == ["timed"]
    assert not begun


def test_a_wrong_kernel_is_rejected_before_it_is_timed(judge):
    found = judge.accept(*WRONG)
    assert found.decision.status == "rejected"
    assert found.timing is None
    assert found.verdict.failure == "correct"


def test_a_kernel_that_is_wrong_in_timed_calls_only_is_rejected(judge):
    body = "n = 0\ndef run(x):\n    global n\n    n += 1\n    return x * 200 if n < 60 else x * 0\n"
    found = judge.screen(*made(body))
    later = judge.accept(*made(body)) if found.decision.status != "rejected" else found
    assert later.decision.status == "rejected"


def test_where_time_is_up_nothing_is_measured_and_nothing_held_against_it(judge):
    found = judge.accept(*FAST, deadline_s=0.0)
    assert (found.stage, found.timing) == ("screen", None)
    assert judge._bench.notes == {}, "no baseline is given up for want of time"


@contextmanager
def busy():
    raise BusyError("others have the device")
    yield


@pytest.mark.usefixtures("verified_once")
def test_a_device_that_others_hold_to_the_end_leaves_it_open(judge, monkeypatch):
    monkeypatch.setattr(judge, "_timing", busy)
    for judged in (judge.screen, judge.accept):
        found = judged(*FAST)
        assert (found.stage, found.timing, found.decision.status) == ("screen", None, "unknown")


@pytest.mark.usefixtures("verified_once")
def test_an_admission_that_time_cuts_short_leaves_it_open(judge, monkeypatch):
    def late(*_, **__):
        raise TimeoutError

    monkeypatch.setattr(judge, "_admission", None)
    monkeypatch.setattr(acceptance, "admit", late)
    found = judge.accept(*FAST)
    assert (found.stage, found.timing) == ("screen", None)


@pytest.mark.usefixtures("verified_once")
def test_what_is_measured_leaves_time_to_confirm_it(judge, monkeypatch):
    asked = {}

    def measured(*_, phase, deadline_s, left_s, **__):
        asked[phase] = deadline_s / left_s
        return None, []

    monkeypatch.setattr(judge._bench, "measure", measured)
    monkeypatch.setattr(judge._bench, "start", lambda *_, **__: True)
    judge.accept(*FAST, deadline_s=50.0)
    assert 0.4 < asked["measure"] <= 0.51


def test_what_was_precomputed_is_not_worked_out_again_and_is_a_stage_once(judge, monkeypatch):
    oracle = judge._oracle
    oracle._cases.clear()
    make, made_s = oracle.make, []
    monkeypatch.setattr(oracle, "make", lambda *a, **k: made_s.append(1) or make(*a, **k))
    judge.precompute()
    assert len(made_s) == 1
    monkeypatch.setattr(judge._bench, "measure", lambda *_, **__: (None, []))
    assert judge.screen(*FAST).stages_s["precompute"] > 0
    assert "precompute" not in judge.screen(*FAST).stages_s
    assert len(made_s) == 1


def test_the_first_candidate_is_shown_before_the_other_baselines_start(judge, monkeypatch):
    said, start = [], judge._bench.start
    monkeypatch.setattr(judge._bench, "ready", lambda _: False)
    monkeypatch.setattr(judge, "_verified_said", False)
    monkeypatch.setattr(judge, "_say", lambda event, **data: said.append((event, data)))
    monkeypatch.setattr(judge._bench, "start", lambda *a, **k: said.append(("start", k)) or start(*a, **k))
    judge.screen(*WRONG)
    assert said == [], "a wrong kernel is no first one"
    found = judge.screen(*FAST)
    names = [event for event, given in said if given.get("only") is None]
    assert names[:4] == ["verified", "prescreen", "baselines", "start"], (
        "what takes long is said before it begins"
    )
    assert said[0] == ("verified", {"candidate": FAST[0].key, "language": "torch"}), (
        "before any baseline starts"
    )
    assert said[[e for e, _ in said].index("prescreen")][1]["baseline"] == "eager"
    assert {"prescreen", "baselines", "screen"} <= set(found.stages_s)


@pytest.mark.parametrize(("time_us", "phases"), [(900.0, ["prescreen"]), (90.0, ["prescreen", "screen"])])
def test_who_is_far_slower_than_the_first_baseline_needs_no_other(judge, monkeypatch, time_us, phases):
    seen = []

    def measured(candidate, build, phase, verdict, stages, *_):
        seen.append(phase)
        block = Block(
            workload=judge.problem.task.workloads[0].name, order=("eager", "candidate"), calls=1, phase=phase,
            times_us={"eager": 100.0, "candidate": time_us}, fetch_us={},
        )  # fmt: skip
        return Timing(variants=(), blocks=(block,) * 3, cache="warm", device="d"), verdict

    monkeypatch.setattr(judge, "_measure", measured)
    monkeypatch.setattr(judge._bench, "ready", lambda _: False)
    found = judge.screen(*FAST)
    assert seen == phases
    assert (found.decision.status == "slower") is (phases == ["prescreen"])


@pytest.mark.usefixtures("verified_once")
def test_a_screening_starts_no_compiler_ahead_and_an_acceptance_does(judge, monkeypatch):
    begun = []
    monkeypatch.setattr(judge._pool, "prepare", lambda natives=(), **_: begun.append(len(natives)))
    monkeypatch.setattr(judge._bench, "measure", lambda *_, **__: (None, []))
    judge.screen(*FAST)
    assert not any(begun), "the first baseline may show that no other is needed"
    judge.vet(*FAST)
    assert begun[-1] == len(judge._natives) > 0


@pytest.mark.usefixtures("verified_once")
def test_what_refused_a_candidate_is_told_to_the_next_verification(judge, monkeypatch):
    told = []
    verdict = judge.vet(*FAST).verdict

    def verified(*_, oracle, **__):
        told.append(oracle)
        return verdict

    monkeypatch.setattr(acceptance, "verify", verified)
    judge.vet(*FAST)
    judge.vet(*FAST)
    assert told[0] is not told[1] and told[0].refusals is told[1].refusals, "fresh answers, one count"


@pytest.mark.usefixtures("verified_once")
def test_a_candidate_is_timed_on_no_workloads_but_those_asked_for(judge, monkeypatch):
    said = []
    monkeypatch.setattr(judge, "_say", lambda event, **data: said.append((event, data)))
    monkeypatch.setattr(judge, "_isolation_said", False)
    assert judge.accept(*FAST, workloads=["another"]).timing.blocks == ()
    judge.accept(*WRONG)
    assert said == [("isolation", {"layers": list(judge._pool.layers)})], "what holds is said once"


TWO_SIZES = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 32, "dim": 64}, {"rows": 48, "dim": 96}])
def doubled(x):
    return x + x
"""


def test_baselines_are_prepared_for_once_a_candidate_is_built(tmp_path, monkeypatch):
    (tmp_path / "doubled.py").write_text(TWO_SIZES)
    problem = Problem(load_task(str(tmp_path / "doubled.py")))
    settings, prepared = Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)}), []

    def prepare(pool, baselines=(), languages=()):
        prepared.append(([b.flags for b in baselines], tuple(languages)))

    monkeypatch.setattr(Pool, "prepare", prepare)
    names = ("eager", "compile")
    with Acceptance(problem, detect("cpu"), (), names, settings=settings, languages=("torch",)) as judge:
        judge.precompute()
        assert prepared == [([], ("torch",))], "the first build and its worker have the processor"
        vetted = judge.vet(*made("def run(x):\n    return x * 2\n"))
    assert prepared[1:] == [([problem.baseline(n, problem.task.workloads[0]).flags for n in names], ())]
    checked = {finding.check for finding in vetted.verdict.findings}
    assert {"deployment", "finished"} <= checked and "endurance" not in checked, "left to the acceptance"


@pytest.mark.long
@pytest.mark.alone
def test_a_workload_that_a_candidate_declines_is_not_timed_and_stays_native(tmp_path):
    (tmp_path / "doubled.py").write_text(TWO_SIZES)
    problem = Problem(load_task(str(tmp_path / "doubled.py")))
    small, large = (w.name for w in problem.task.split(Split.SEARCH))
    candidate = made(
        "def run(x):\n    if len(x) == 32:\n        raise NotImplementedError('Unsupported: 32 rows')\n"
        "    return x * 2\n"
    )
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)})
    with Acceptance(problem, detect("cpu"), (), ("eager",), settings=settings) as judge:
        found = judge.screen(*candidate)
    assert found.verdict.status == "accepted", found.verdict.findings
    assert found.verdict.unsupported == (small,)
    assert [w.workload for w in found.decision.workloads] == [large]
    assert speedups(found, (small, large)).keys() == {large}
    run = SimpleNamespace(id="r", task_name="doubled")
    assert judgement_of(run, found, (small, large)).declined == (small,)


class Planted:
    """Stands for the measurement: what each phase's workloads have for ratios, and which were asked for."""

    def __init__(self, judge, ratios):
        self.judge, self.ratios, self.asked = judge, ratios, []
        self.problem = judge.problem

    def __call__(self, candidate, build, phase, verdict, stages, workloads=(), tried=1):
        chosen = self.judge._workloads(phase, verdict, workloads)
        self.asked.append((phase, [w.name for w in chosen]))
        blocks = tuple(
            Block(
                workload=w.name, order=("eager", "candidate"), calls=1, phase=phase,
                times_us={"eager": 100.0 * self.ratios.get(w.name, 2.0), "candidate": 100.0 + i % 3},
            )
            for w in chosen for i in range(12)
        )  # fmt: skip
        classes = classes_of(
            [w for w in chosen if w.split != "search"], self.problem.task.split(Split.SEARCH)
        )
        return Timing(variants=(), blocks=blocks, cache="warm", device="d", classes=classes), verdict


@pytest.mark.usefixtures("verified_once")
@pytest.mark.long
@pytest.mark.alone
def test_a_later_candidate_is_confirmed_first_where_an_earlier_one_lost_its_gain(judge, monkeypatch):
    regime = next(w for w in judge.problem.task.split(Split.CONFIRM) if w.axes == {"rows": 64, "dim": 128})
    measured = Planted(judge, {regime.name: 0.45})
    monkeypatch.setattr(judge, "_measure", measured)
    monkeypatch.setattr(judge, "_refuter", None)
    first, second = judge.accept(*FAST), judge.accept(*FAST)
    assert [phase for phase, _ in measured.asked] == ["measure", "confirm", "refuter"]
    assert measured.asked[-1] == ("refuter", [regime.name])
    for found in (first, second):
        assert found.decision.status == "inconclusive"
        assert found.decision.lost == "0.45 times as fast as eager under another value regime"
        judged = judgement_of(SimpleNamespace(id="r", task_name="slow_sum"), found, ("w",))
        assert judged.lost == found.decision.lost
        assert regime.name not in judged.line(verbose=True), "the name gives sizes and regime away"
    again = decide(second.timing, second.verdict, [], judge.problem.task.contract)
    assert again == second.decision
    measured.ratios, measured.asked = {}, []
    assert judge.accept(*FAST).decision.status == "improved"
    assert [phase for phase, _ in measured.asked][:3] == ["refuter", "measure", "confirm"]


@pytest.mark.usefixtures("verified_once")
@pytest.mark.alone
def test_a_slow_regime_that_keeps_half_the_speed_is_a_caveat_on_the_sheet(judge, monkeypatch):
    regime = next(w for w in judge.problem.task.split(Split.CONFIRM) if w.axes == {"rows": 64, "dim": 128})
    monkeypatch.setattr(judge, "_measure", Planted(judge, {regime.name: 0.6}))
    found = judge.accept(*FAST)
    assert found.decision.status == "improved"
    (words,) = found.decision.caveats
    assert words.startswith("0.59 times as fast as eager under an unusual value regime")
    judged = judgement_of(SimpleNamespace(id="r", task_name="slow_sum"), found, ("w",))
    assert judged.caveats == (words,)
