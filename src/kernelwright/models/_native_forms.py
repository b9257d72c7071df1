"""Timed blocks → which native form of a model is the fastest, and what its regions' kernels are held against.

A kernel for a region that loses to the form the whole model is held against is found out there, before minutes are
spent on the verdict. Such a form may build the weights in: it is no choice where they change, and an owner who changes
them names other forms (`--baseline`), for the whole and its regions.
"""

import json
from collections.abc import Mapping, Sequence
from statistics import median

from ..records import Evaluation
from ..store import Store

REGION_FORMS = ("eager", "compile")
"""Native forms of a region that its kernels are always held against."""
NATIVE_SHARE = 0.5
"""Part of the seconds to a decision on a model that timing its native forms takes: 0.4 to 0.6 in three stores."""
_FORMS = "model-native"
"""Under which the store keeps the times of a model's native forms."""
_OTHER = "candidate"


def forms_of(found: Evaluation) -> dict[str, float]:
    """Return the time of each native form, by that of the candidate in the same blocks."""
    blocks = [b.times_us for b in (found.timing.blocks if found.timing else ()) if not b.repeated]
    names = {name for times in blocks for name in times} - {_OTHER}
    paired = {n: [t[n] / t[_OTHER] for t in blocks if {n, _OTHER} <= t.keys()] for n in sorted(names)}
    return {name: median(ratios) for name, ratios in paired.items() if ratios}


def forms_in(store: Store, run: str) -> dict[str, float]:
    """Return the times of a model's native forms by the evaluation of a run that timed the most of them."""
    return max(map(forms_of, store.evaluations(run)), key=len, default={})


def fastest_of(forms: Mapping[str, float]) -> str:
    """Return the name of the fastest form; empty where none was timed.

    Example:
        >>> fastest_of({"eager": 2.0, "compile": 1.5, "compile-max-autotune-freezing": 1.2}), fastest_of({})
        ('compile-max-autotune-freezing', '')
    """
    return min(forms, key=lambda name: forms[name], default="")


def held_against(fastest: str, asked: Sequence[str]) -> tuple[str, ...]:
    """Return the native forms that kernels of regions must beat: all that were asked for if none is known as fastest.

    Example:
        >>> held_against("compile", ("eager", "openvino")), held_against("", ("eager", "openvino"))
        (('eager', 'compile'), ('eager', 'compile', 'openvino'))
    """
    return tuple(dict.fromkeys((*REGION_FORMS, *((fastest,) if fastest else asked))))


def wants_measuring(asked: Sequence[str]) -> bool:
    """Tell whether the fastest form may be one that regions are not held against anyway.

    Example:
        >>> wants_measuring(("eager", "compile")), wants_measuring(("eager", "openvino"))
        (False, True)
    """
    return not set(asked) <= set(REGION_FORMS)


def keep_forms(store: Store, key: str, asked: Sequence[str], forms: Mapping[str, float]) -> None:
    """Keep what native forms took, so that a run that goes on holds regions against the same."""
    origin = f"{key} {','.join(asked)}"
    store.keep(_FORMS, origin, {origin: json.dumps({"of": origin, "forms": dict(forms)})})


def kept_forms(store: Store, key: str, asked: Sequence[str]) -> dict[str, float] | None:
    """Return what was kept of a model's native forms; None where nothing was, empty where they could not be timed."""
    origin = f"{key} {','.join(asked)}"
    found = [row["forms"] for row in map(json.loads, store.kept(_FORMS)) if row["of"] == origin]
    return dict(found[-1]) if found else None
