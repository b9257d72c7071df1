"""Model → regions, plan, patched model: whole models, measured end to end.

Target ─▶ capture ─▶ regions ─▶ plan ─▶ optimize each region ─▶ patch ─▶ verdict on the whole
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._capture import Captured, capture_model
    from ._dynamo import dynamo_backend
    from ._install import patch
    from ._joint import Step, capture_step
    from ._metadata import ModelMetadata, keep_metadata, model_metadata
    from ._optimize import BASELINES, PROPOSERS, model_result, optimize_model
    from ._optimizer_patch import OptimizerPatch
    from ._patch import Patch
    from ._plan import plan
    from ._plan_records import Gain, Plan, PlannedRegion
    from ._records import MODEL_DRIFT, DynamoForm, ModelResult, RegionOutcome, SizedOutcome, SizedResult
    from ._regions import Region, regions_of
    from ._sized_patch import SizedPatch
    from ._sized_plan import SizedPlan, plan_sizes
    from ._sizes import Sizes, optimize_sizes, sizes_of
    from ._target import Loaded, ModelTarget, Whole, is_model, load_model
    from ._training import optimize_training, step_task
    from ._training_patch import TrainingPatch
    from .pieces import Capture

_HOMES = {
    "_capture": ("Captured", "capture_model"),
    "pieces": ("Capture",),
    "_dynamo": ("dynamo_backend",),
    "_install": ("patch",),
    "_joint": ("Step", "capture_step"),
    "_metadata": ("ModelMetadata", "keep_metadata", "model_metadata"),
    "_optimize": ("BASELINES", "PROPOSERS", "model_result", "optimize_model"),
    "_optimizer_patch": ("OptimizerPatch",),
    "_patch": ("Patch",),
    "_plan": ("plan",),
    "_plan_records": ("Gain", "Plan", "PlannedRegion"),
    "_records": ("MODEL_DRIFT", "DynamoForm", "ModelResult", "RegionOutcome", "SizedOutcome", "SizedResult"),
    "_regions": ("Region", "regions_of"),
    "_sized_patch": ("SizedPatch",),
    "_sized_plan": ("SizedPlan", "plan_sizes"),
    "_sizes": ("Sizes", "optimize_sizes", "sizes_of"),
    "_target": ("Loaded", "ModelTarget", "Whole", "is_model", "load_model"),
    "_training": ("optimize_training", "step_task"),
    "_training_patch": ("TrainingPatch",),
}  # fmt: skip
"""Names are imported from their homes when first used: `is_model`, which every target is asked, needs no compiler."""

__all__ = [
    "BASELINES",
    "MODEL_DRIFT",
    "PROPOSERS",
    "Capture",
    "Captured",
    "DynamoForm",
    "Gain",
    "Loaded",
    "ModelMetadata",
    "ModelResult",
    "ModelTarget",
    "OptimizerPatch",
    "Patch",
    "Plan",
    "PlannedRegion",
    "Region",
    "RegionOutcome",
    "SizedOutcome",
    "SizedPatch",
    "SizedPlan",
    "SizedResult",
    "Sizes",
    "Step",
    "TrainingPatch",
    "Whole",
    "capture_model",
    "capture_step",
    "dynamo_backend",
    "is_model",
    "keep_metadata",
    "load_model",
    "model_metadata",
    "model_result",
    "optimize_model",
    "optimize_sizes",
    "optimize_training",
    "patch",
    "plan",
    "plan_sizes",
    "regions_of",
    "sizes_of",
    "step_task",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its home when it is first used."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f".{home}", __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
