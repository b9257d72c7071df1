"""Conformance tests for implementations of a Protocol: test classes to subclass."""

from collections.abc import Callable

from ..records import Configuration, Parameter, Space
from ..search.tuners import Observation, Tuner

Cost = Callable[[Configuration], float | None]


class TunerConformance:
    """The contract of a `Tuner` as tests; pytest runs them for every subclass that defines `make`.

        class TestMine(TunerConformance):
            def make(self, space, seed):
                return MyTuner(space, seed)

    Covers: staying within constraints, no repetition, reaching the end of the space despite failures,
    determinism, several asks before a tell, unrequested results, warm starts, spaces of one and
    of no configuration.
    Does not cover: its quality; `kernelwright tune` measures that.
    """

    space = Space(
        parameters=(
            Parameter(name="tile", values=(8, 16, 32, 64)),
            Parameter(name="unroll", values=(1, 2, 4)),
            Parameter(name="order", values=("row", "column")),
            Parameter(name="stream", values=(False, True)),
        ),
        constraints=("tile * unroll <= 128",),
    )
    """Forty configurations with sizes, names and switches."""

    def make(self, space: Space, seed: int) -> Tuner:
        """Make the tuner under test."""
        raise NotImplementedError("a subclass of TunerConformance says how to make its tuner")

    def test_is_a_tuner(self) -> None:
        """It has the methods of the Protocol."""
        assert isinstance(self.make(self.space, 0), Tuner)

    def test_asks_for_every_allowed_configuration_once(self) -> None:
        """It stays within the constraints, never repeats and never skips anything."""
        asked = _walk(self.make(self.space, 3), _cost)
        assert all(self.space.allows(c) for c in asked), "every configuration must be allowed"
        assert all(c not in asked[:i] for i, c in enumerate(asked)), "no configuration twice"
        assert len(asked) == len(list(self.space.configurations())), "it must go on to the end"
        assert {type(v) for c in asked for v in c.values()} == {int, str, bool}, "values keep their types"

    def test_is_deterministic(self) -> None:
        """The same seed and results lead to the same asks."""
        assert _walk(self.make(self.space, 3), _cost) == _walk(self.make(self.space, 3), _cost)

    def test_goes_on_past_failures(self) -> None:
        """A space in which nothing works is searched to its end."""
        everything = list(self.space.configurations())
        assert len(_walk(self.make(self.space, 5), lambda _: None)) == len(everything)

    def test_does_not_ask_for_what_it_was_told(self) -> None:
        """Unrequested results count as tried."""
        told = list(self.space.configurations())[:9]
        tuner = self.make(self.space, 3)
        for configuration in told:
            tuner.tell(configuration, _cost(configuration))
        asked = _walk(tuner, _cost)
        assert not any(c in told for c in asked)
        assert len(asked) == len(list(self.space.configurations())) - len(told)

    def test_answers_several_asks_before_a_tell(self) -> None:
        """Builds overlap: `ask` is called ahead, at the start and later."""
        tuner = self.make(self.space, 3)
        asked: list[Configuration] = []
        for _ in range(5):
            batch = [c for c in (tuner.ask() for _ in range(4)) if c is not None]
            assert len(batch) == 4 and not any(c in asked for c in batch)
            asked += batch
            for configuration in reversed(batch):
                tuner.tell(configuration, _cost(configuration))
        assert all(c not in asked[:i] for i, c in enumerate(asked))

    def test_takes_a_warm_start(self) -> None:
        """Hints do not count as evaluations, may fail and may come from another space."""
        tuner = self.make(self.space, 3)
        hints = [Observation(c, _cost(c)) for c in list(self.space.configurations())[::4]]
        stranger: Configuration = {"tile": 128, "unroll": 1, "order": "row", "stream": False}
        tuner.warm_start([*hints, Observation(stranger, 1.0), Observation({"other": 1}, 1.0)])
        tuner.warm_start([])
        assert len(_walk(tuner, _cost)) == len(list(self.space.configurations()))

    def test_serves_the_smallest_spaces(self) -> None:
        """One configuration, no parameter, and unsatisfiable constraints."""
        tile = Parameter(name="tile", values=(8,))
        assert _walk(self.make(Space(parameters=(tile,)), 0), lambda _: 1.0) == [{"tile": 8}]
        assert _walk(self.make(Space(), 0), lambda _: 1.0) == [{}]
        assert _walk(self.make(Space(parameters=(tile,), constraints=("tile > 8",)), 0), lambda _: 1.0) == []


def _walk(tuner: Tuner, cost: Cost) -> list[Configuration]:
    asked: list[Configuration] = []
    while len(asked) < 1000 and (configuration := tuner.ask()) is not None:
        asked.append(configuration)
        tuner.tell(configuration, cost(configuration))
    return asked


def _cost(configuration: Configuration) -> float | None:
    tile, unroll = configuration["tile"], configuration["unroll"]
    assert isinstance(tile, int) and isinstance(unroll, int)
    slow = 1.5 if configuration["order"] == "column" else 1.0
    return None if tile == 64 else slow * (abs(tile - 16) + abs(unroll - 2) + 1.0)
