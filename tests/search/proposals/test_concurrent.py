"""A proposer that waits for an answer: others go on meanwhile, and it knows what was evaluated."""

import threading
from itertools import islice
from types import SimpleNamespace

from kernelwright.errors import ModelError
from kernelwright.propose import Request
from kernelwright.search.proposals import _proposals
from kernelwright.search.proposals._concurrent import proposed
from kernelwright.search.proposals._scheduler import Scheduler
from kernelwright.search.tuners import make_tuner
from kernelwright.testing import PlantedTemplate, planted_candidate

from ..session.rig import TILES

OURS, THEIRS = planted_candidate(50.0), [planted_candidate(60.0), planted_candidate(70.0)]


class Waiting:
    """Has no answer before the door is open; then a proposal, or none if there is an error to raise."""

    name, waits = "waiting", True

    def __init__(self, error=None):
        self.door, self.error, self.requests = threading.Event(), error, []

    def propose(self, request):
        self.requests.append((request, list(request.history)))
        request.troubled("nobody is there")
        assert self.door.wait(600)
        if self.error:
            raise self.error
        yield OURS
        self.requests.append((request, list(request.history)))


class Ready:
    name = "ready"

    def propose(self, request):
        yield from THEIRS


def asked(monkeypatch, waiting, **options):
    """What a run of the waiting proposer proposes, where the ready one stands in, and what is said."""
    said = []
    monkeypatch.setattr(_proposals, "PROPOSERS", ("ready",))
    monkeypatch.setattr(
        _proposals,
        "make_proposers",
        lambda names: [waiting if name == "waiting" else Ready() for name in names],
    )
    setting = SimpleNamespace(
        names=lambda _: ("waiting",),
        emit=lambda event, name="", message="": said.append(message),
        run=SimpleNamespace(options=options),
    )
    request = Request(None, None, (), ("planted",), emit=said.append)
    return _proposals.proposals_of(setting, request), said


def test_others_go_on_while_no_model_answers(monkeypatch):
    waiting = Waiting()
    proposals, said = asked(monkeypatch, waiting)
    assert list(islice(proposals, 3)) == [*THEIRS, None], "nothing is left but to wait"
    waiting.door.set()
    assert [p for p in proposals if p is not None] == [OURS]
    assert said == ["waiting asks again: nobody is there", "meanwhile ready go on, which need no model"]


def test_who_compares_models_has_nobody_stand_in(monkeypatch):
    waiting = Waiting()
    proposals, _ = asked(monkeypatch, waiting, instead=False)
    assert next(proposals) is None
    waiting.door.set()
    assert [p for p in proposals if p is not None] == [OURS]


def test_what_others_have_left_comes_after_a_model_that_never_answers(monkeypatch):
    waiting = Waiting(ModelError("gone"))
    proposals, said = asked(monkeypatch, waiting)
    first = next(proposals)
    waiting.door.set()
    assert [first, *(p for p in proposals if p is not None)] == THEIRS
    assert said[-1] == "waiting has nothing more: gone"


def test_it_knows_what_was_evaluated_until_it_is_asked_and_when_it_is_over():
    waiting, history = Waiting(), ["first"]
    waiting.door.set()
    proposals = proposed(waiting, Request(None, None, (), (), history=history))
    assert next(p for p in proposals if p is not None) == OURS
    history.append("second")
    assert list(proposals) == []
    assert [seen for _, seen in waiting.requests] == [["first"], ["first", "second"]]
    assert waiting.requests[0][0].cancelled(), "who still waits for it may give up"


def test_templates_are_tuned_while_somebody_is_waited_for():
    tiles = PlantedTemplate("tiles", TILES, lambda c: 60.0 + c["tile"], {"tile": 1, "unroll": 1})
    scheduler = Scheduler(iter([tiles, None, OURS]), lambda space: make_tuner("local", space, 0))
    first, second, third = (scheduler.ask() for _ in range(3))
    assert first.configuration == tiles.default() != second.configuration
    assert third.candidate == OURS
    nobody = Scheduler(iter([None, OURS]), lambda space: make_tuner("local", space, 0))
    assert nobody.ask(idle=False) is None and nobody.ask().candidate == OURS
