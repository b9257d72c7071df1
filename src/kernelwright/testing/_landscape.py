"""A synthetic landscape with a planted optimum and a deterministic editor, to test strategies without models."""

import random
from collections.abc import Callable

from pydantic import JsonValue

from ..languages import Language
from ..propose import Move, Reply, Request
from ..records import BuildStatus, Candidate, Configuration, Evaluation
from ..search.evaluation._evaluation import unbuilt
from ..search.replay.serial import SerialSearch, serial_search
from ..search.strategies import Strategy
from ._planted import PlantedJudge, PlantedLanguage, planted_candidate

STYLES = ("plain", "float4", "__shared__", "atomic")
"""Styles that behaviours distinguish; the optimum is in the third."""
_NAMED = dict(zip(STYLES, ("element", "vectors", "shared", "splits"), strict=True))
"""Words in a goal that request a style."""
_KERNELS = ("draft", "improve", "repair", "merge")
"""Operators that return a kernel; others return text."""
_AXES = "abcd"
_VALUES = 8
_LEAST_US = (55.0, 45.0, 20.0, 60.0)
"""Best time of each style."""
_STEP_US = (2.0, 3.0, 4.0, 2.0)
"""The cost of each step away from a style's best setting."""
_DECEPTIVE_STEP_US = 9.0
"""The same cost in the optimum's style if the landscape is deceptive: slow nearly everywhere."""


class PlantedLandscape:
    """Kernels of a style and four settings; a share of them fails, and one is the best.

    As an editor it drafts at random, changes a setting or two of the main parent, crosses two parents, and takes
    a style that the move's goal names by its behaviour. Its answers depend on the landscape's seed and
    the move alone. `asked` lists the moves.

    Example:
        >>> from kernelwright.search.strategies import Means, make_strategy
        >>> landscape = PlantedLandscape(seed=3)
        >>> found = landscape.serial_search(make_strategy("evolve", Means(seed=0)), evaluations=60)
        >>> found.best <= landscape.best_score
        True
    """

    name = "planted"
    operators: tuple[str, ...] = _KERNELS

    def __init__(self, seed: int = 0, *, faults: float = 0.15, deceptive: bool = False) -> None:
        """Plant an optimum.

        Args:
            seed: Determines where.
            faults: Share of the kernels that fail; the best one works unless it is 1.
            deceptive: Whether the optimum's style is slow nearly everywhere, and never drafted.
        """
        dice = random.Random(f"landscape {seed}")
        self._seed, self._faults = seed, faults
        self.luck = 0
        """Seed of the editor's random choices."""
        self._step_us = (*_STEP_US[:2], _DECEPTIVE_STEP_US if deceptive else _STEP_US[2], _STEP_US[3])
        self._drafted = STYLES[:2] if deceptive else STYLES
        self._places = [{axis: dice.randrange(_VALUES) for axis in _AXES} for _ in STYLES]
        self._judge = PlantedJudge(bound_us=1.0)
        self._language: Language = PlantedLanguage()
        self.asked: list[Move] = []

    @property
    def best_score(self) -> float:
        """The score of the optimum."""
        return 100.0 / min(_LEAST_US)

    def candidate(self, setting: Configuration) -> Candidate:
        """Return the kernel of a style and settings."""
        style = STYLES.index(str(setting["style"]))
        place = self._places[style]
        steps = sum(abs(int(str(setting[axis])) - place[axis]) for axis in _AXES)
        may_fail = steps > 0 or self._faults == 1
        luck = random.Random(f"{self._seed} {sorted(setting.items())}")
        fault = luck.choice(("build", "verify")) if may_fail and luck.random() < self._faults else ""
        time_us = _LEAST_US[style] + self._step_us[style] * steps
        return planted_candidate(time_us, fault=fault, parameters=dict(sorted(setting.items())))

    def edit(self, move: Move, request: Request | None = None) -> Reply:
        """Answer a move."""
        del request
        self.asked.append(move)
        parents = [p.candidate.key for p in move.parents]
        dice = random.Random(f"{self.luck} {move.number} {move.operator} {parents} {move.goal}")
        if move.operator not in _KERNELS:
            return Reply(notes=self.words(move, dice), usd=0.01)
        child = self.candidate(self._child(move, dice))
        return Reply(proposals=(child.model_copy(update={"parents": tuple(parents)}),), usd=0.01)

    def words(self, move: Move, dice: random.Random) -> dict[str, JsonValue]:
        """Answer a move that asks for text; subclasses override it."""
        del move, dice
        return {}

    def evaluate(self, candidate: Candidate) -> Evaluation:
        """Build and screen a candidate."""
        build = self._language.build(candidate)
        if build.status is not BuildStatus.OK:
            return unbuilt(candidate, build)
        return self._judge.screen(candidate, build)

    def serial_search(self, strategy: Strategy, *, evaluations: int, width: int = 1) -> SerialSearch:
        """Let a strategy search the landscape."""
        return serial_search(strategy, self.edit, self.evaluate, evaluations=evaluations, width=width)

    def solved(self, make: Callable[[int], Strategy], *, evaluations: int, seeds: int, width: int = 1) -> int:
        """Count the seeds, of the strategy and of the editor, with which a strategy finds the optimum."""
        solved = 0
        for self.luck in range(seeds):
            found = self.serial_search(make(self.luck), evaluations=evaluations, width=width)
            solved += found.best >= self.best_score * 0.999
        return solved

    def _child(self, move: Move, dice: random.Random) -> Configuration:
        if not move.parents or "style" not in move.parents[0].candidate.parameters:
            return {"style": dice.choice(self._drafted), **{axis: dice.randrange(_VALUES) for axis in _AXES}}
        child = dict(move.parents[0].candidate.parameters)
        if len(move.parents) > 1:
            other = {**child, **move.parents[1].candidate.parameters}
            return {name: dice.choice((child[name], other[name])) for name in child}
        named = [style for style, word in _NAMED.items() if word in move.goal]
        if named:
            child["style"] = named[0]
        elif dice.random() < 0.05:
            child["style"] = dice.choice(STYLES)
        for axis in dice.sample(_AXES, dice.choice((1, 1, 2))):
            child[axis] = min(max(int(str(child[axis])) + dice.choice((-2, -1, 1, 2)), 0), _VALUES - 1)
        return child
