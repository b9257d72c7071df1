"""For tests, here and in packages that extend Kernelwright: fakes, recorded spaces, conformance checks."""

from ..search.simulation import RecordedSpace, replay
from ._conformance import TunerConformance
from ._planted import PlantedJudge, PlantedLanguage, PlantedTemplate, planted_candidate, planted_task
from ._recorded import recorded_space, recorded_space_names

__all__ = [
    "PlantedJudge", "PlantedLanguage", "PlantedTemplate", "RecordedSpace", "TunerConformance", "planted_candidate",
    "planted_task", "recorded_space", "recorded_space_names", "replay",
]  # fmt: skip
