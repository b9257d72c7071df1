"""Run → what the store keeps about a model: its result, its plan, how it drifts."""

import json
from dataclasses import dataclass

from ..records import Record
from ..store import Store
from ._plan_records import Plan
from ._records import MODEL_DRIFT, MODEL_PLAN, MODEL_RESULT, ModelResult


@dataclass(frozen=True)
class ModelMetadata:
    """What is kept about a model."""

    result: ModelResult
    """The verdict."""
    plan: Plan | None
    """Its plan; none in stores of earlier versions."""
    drift: str | None
    """How it drifts, as JSON of `Drift`; none where that was not asked."""


def model_metadata(store: Store, run: str) -> ModelMetadata | None:
    """Return what is kept about the model of a run, or of a name; None where there is none of either.

    Args:
        store: The store.
        run: The run in which it was judged, or its beginning; for a model that was not judged, its name.
    """
    results = map(ModelResult.from_json, store.kept(MODEL_RESULT))
    known = [r for r in results if r.run.startswith(run) or r.model == run]
    if not known or not run:
        return None
    result = known[-1]
    plan = _kept(store, MODEL_PLAN, result.origin)
    return ModelMetadata(
        result, Plan.from_json(plan) if plan else None, _kept(store, MODEL_DRIFT, result.origin)
    )


def keep_metadata(store: Store, kind: str, origin: str, record: Record) -> None:
    """Keep a record about a model, in place of an earlier one of this kind.

    Args:
        store: The store.
        kind: `MODEL_PLAN` or `MODEL_DRIFT`.
        origin: The result's `origin`.
        record: The record.
    """
    store.keep(kind, origin, {origin: json.dumps({"origin": origin, "record": record.to_json()})})


def _kept(store: Store, kind: str, origin: str) -> str | None:
    found = [row for row in map(json.loads, store.kept(kind)) if row["origin"] == origin]
    return str(found[-1]["record"]) if found else None
