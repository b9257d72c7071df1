"""Proposers that repeat a baseline: asked last, and not where editors go on from what they propose."""

from types import SimpleNamespace

import pytest
from tests.search.session.rig import TILES

from kernelwright.propose import Request
from kernelwright.propose.inductor import InductorProposer
from kernelwright.search.proposals import _proposals
from kernelwright.search.proposals._scheduler import Scheduler
from kernelwright.search.tuners import make_tuner
from kernelwright.testing import PlantedTemplate, planted_candidate

OURS, THEIRS = planted_candidate(10.0), planted_candidate(20.0)


class Ours:
    name = "ours"

    def propose(self, request):
        yield OURS


class Repeats:
    name, repeats = "repeats", "compile"

    def propose(self, request):
        yield THEIRS


def setting_of(monkeypatch, **names):
    by_name = {"ours": Ours(), "repeats": Repeats()}
    monkeypatch.setattr(_proposals, "PROPOSERS", ("repeats", "ours"))
    monkeypatch.setattr(_proposals, "make_proposers", lambda asked: [by_name[name] for name in asked])
    return SimpleNamespace(
        names=lambda option: names.get(option, ()),
        emit=lambda *_, **__: None,
        run=SimpleNamespace(options={}),
    )


@pytest.mark.parametrize(
    ("baselines", "editors", "first", "last"),
    [
        (("eager", "compile"), (), [OURS], [THEIRS]),
        (("eager",), (), [THEIRS, OURS], []),
        (("eager", "compile"), ("llm",), [THEIRS, OURS], []),
    ],
)
def test_who_repeats_a_baseline_that_is_to_be_beaten_is_asked_last(
    monkeypatch, baselines, editors, first, last
):
    setting = setting_of(monkeypatch, proposers=("repeats", "ours"), baselines=baselines, editors=editors)
    request = Request(None, None, (), ("planted",))
    assert list(_proposals.proposals_of(setting, request)) == first
    assert list(_proposals.proposals_late(setting, request)) == last


def test_torch_compile_s_own_code_repeats_the_baseline_of_that_name():
    assert InductorProposer.repeats == "compile"


def test_late_proposals_come_once_no_template_is_open():
    space = TILES.model_copy(update={"parameters": TILES.parameters[1:]})
    tiles = PlantedTemplate("tiles", space, lambda c: 60.0, {"unroll": 1})
    scheduler = Scheduler(iter([tiles, OURS]), lambda s: make_tuner("local", s, 0), late=iter([THEIRS]))
    trials = [scheduler.ask() for _ in range(4)]
    assert trials[1].candidate == OURS and all(t.arm for t in (trials[0], *trials[2:]))
    assert scheduler.ask(idle=False) is None, "what is under way may open more"
    assert scheduler.ask().candidate == THEIRS
    assert scheduler.ask() is None
