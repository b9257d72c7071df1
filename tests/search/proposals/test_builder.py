"""Builds ahead of the judge, and never while something is timed."""

import threading

from kernelwright.search.proposals._builder import Builder
from kernelwright.search.proposals._scheduler import Trial
from kernelwright.search.run._quiet import Quiet
from kernelwright.testing import PlantedLanguage, planted_candidate

LIMIT_S = 20.0


class Held(PlantedLanguage):
    """Builds that begin and end when they are told."""

    def __init__(self):
        super().__init__()
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)

    def build(self, candidate, **limits):
        self.begun.release()
        assert self.may_end.acquire(timeout=LIMIT_S)
        return super().build(candidate, **limits)


def test_the_next_is_built_while_one_is_verified_and_none_while_one_is_timed():
    language, quiet = Held(), Quiet()
    with Builder({"planted": language}, width=2, quiet=quiet) as builder:
        for cost_us in (50.0, 60.0):
            builder.give(Trial(planted_candidate(cost_us)), known=False)
        assert all(language.begun.acquire(timeout=LIMIT_S) for _ in range(2))
        language.may_end.release(2)
        builder.take()  # is verified from here on
        builder.give(Trial(planted_candidate(70.0)), known=False)
        assert language.begun.acquire(timeout=LIMIT_S), "builds go on meanwhile"
        threading.Timer(0.05, language.may_end.release).start()
        with quiet.timing():
            assert builder._queue[-1][1].done(), "what had begun is waited for"
            builder.give(Trial(planted_candidate(80.0)), known=False)
            assert not language.begun.acquire(timeout=0.2), "nothing is built while something is timed"
        assert language.begun.acquire(timeout=LIMIT_S), "and it is built afterwards"
        language.may_end.release()


def test_a_timing_that_is_interrupted_lets_builds_go_on():
    quiet = Quiet()
    try:
        with quiet.timing():
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    with quiet.building():
        pass
