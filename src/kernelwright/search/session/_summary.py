"""Judgement → a short summary for an agent, which pays per token: passed checks are counted, not listed."""

from collections.abc import Mapping
from math import isfinite

from pydantic import JsonValue

_FIGURES = 4
"""Significant figures of a number: times are not known more precisely."""
_WORTH = frozenset({"run", "task", "candidate", "stage"})
"""Fields that identify the judgement; always kept."""


def shorten(judgement: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Keep what failed, could not run or is useful from a judgement.

    Covers: checks that passed without a message are counted; numbers are rounded; empty fields are left out, and so
    are repetitions: a reason that a finding gives, the figures of the only workload.
    Does not cover: the full detail, which the whole judgement has (`--verbose`).

    Example:
        >>> passed = {"check": "runs", "status": "pass", "message": "", "workload": "", "figures": {}}
        >>> shorten({"verdict": "accepted", "findings": [passed, passed], "reason": "", "time_us": 12.34567})
        {'verdict': 'accepted', 'checks': '2 of 2 checks passed', 'time_us': 12.35}
    """
    told: dict[str, JsonValue] = {}
    for name, value in judgement.items():
        if name == "findings":
            told |= _findings(value)
        elif name in _WORTH or not _is_empty(value):
            told[name] = _rounded(value)
    found = told.get("findings")
    said = (
        [str(one.get("message", "")) for one in found if isinstance(one, dict)]
        if isinstance(found, list)
        else []
    )
    if any(message and message in str(told.get("reason", "")) for message in said):
        told.pop("reason")
    if isinstance(rows := told.get("workloads"), list) and len(rows) == 1:
        told.pop("workloads")
    return told


def _findings(findings: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(findings, list), "findings are a list"
    each = [one for one in findings if isinstance(one, dict)]
    passed = sum(one["status"] == "pass" for one in each)
    worth: list[JsonValue] = [
        {name: _rounded(value) for name, value in one.items() if not _is_empty(value)}
        for one in each
        if one["status"] != "pass" or one["message"]
    ]
    counted: dict[str, JsonValue] = {"checks": f"{passed} of {len(each)} checks passed"}
    return counted | ({"findings": worth} if worth else {})


def _is_empty(value: JsonValue) -> bool:
    return value is None or value in ("", [], {}, False)


def _rounded(value: JsonValue) -> JsonValue:
    match value:
        case float() if isfinite(value):
            return float(f"{value:.{_FIGURES}g}")
        case dict():
            return {name: _rounded(one) for name, one in value.items() if not _is_empty(one)}
        case list():
            return [_rounded(one) for one in value]
    return value
