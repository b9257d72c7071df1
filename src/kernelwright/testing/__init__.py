"""Test utilities for Kernelwright and packages that extend it: fakes, recorded spaces, conformance checks."""

from ..search.replay.simulation import RecordedSpace, replay
from ._conformance import TunerConformance
from ._landscape import PlantedLandscape
from ._model import Asked, Hangs, Refuses, Says, ScriptedModel, Sends
from ._planted import PlantedJudge, PlantedLanguage, PlantedTemplate, planted_candidate, planted_task
from ._programs import RandomProgram, random_program
from ._recorded import recorded_space, recorded_space_names
from ._strategies import StrategyConformance
from ._suites import SuiteConformance
from ._written import WrittenConformance
from .checkouts import made_up_checkout

__all__ = [
    "Asked", "Hangs", "PlantedJudge", "PlantedLandscape", "PlantedLanguage", "PlantedTemplate", "RandomProgram",
    "RecordedSpace", "Refuses", "Says", "ScriptedModel", "Sends", "StrategyConformance", "SuiteConformance",
    "TunerConformance", "WrittenConformance", "made_up_checkout",
    "planted_candidate", "planted_task", "random_program", "recorded_space", "recorded_space_names", "replay",
]  # fmt: skip
