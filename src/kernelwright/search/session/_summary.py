"""Judgement → the few words of it that an agent needs, who pays for each: what passed is counted, not listed."""

from collections.abc import Mapping
from math import isfinite

from pydantic import JsonValue

_FIGURES = 4
"""Significant figures of a number: times are not known better."""
_WORTH = frozenset({"run", "task", "candidate", "stage"})
"""What says which judgement it is; kept at any price."""


def shorten(judgement: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Keep of a judgement what failed, could not run or is worth knowing.

    Covers: checks that passed without a word are counted; numbers are rounded; what is empty is left out, and so is
    what stands elsewhere in the answer: a reason that a finding gives, the only workload's figures.
    Does not cover: saying it all; the whole judgement does (`--verbose`).

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
