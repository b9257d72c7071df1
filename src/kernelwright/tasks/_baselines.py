"""The native forms that a candidate is measured against, by name."""

from ..records import Workload

FLAGS = {
    "eager": (),
    "compile": ("--compile=default",),
    "compile-max-autotune": ("--compile=max-autotune",),
    "compile-freezing": ("--compile=freezing",),
    "compile-max-autotune-freezing": ("--compile=max-autotune-freezing",),
}
"""Baseline → the flags of language `torch` under which the reference is that baseline."""
_FREEZING = "-freezing"


def keeps_weights(baseline: str) -> bool:
    """Tell whether a baseline builds the first weights that it is given in, and answers with these ever after.

    Example:
        >>> keeps_weights("compile-freezing"), keeps_weights("compile")
        (True, False)
    """
    return baseline.endswith(_FREEZING)


def superfluous(baseline: str, workload: Workload) -> str:
    """Say why a baseline adds nothing on a workload; empty where it does."""
    if not keeps_weights(baseline):
        return ""
    like = baseline.removesuffix(_FREEZING)
    if not workload.state:
        return f"the task owns no weights that could be built in: it is {like}"
    if workload.cotangents:
        return f"nothing is built in where gradients are asked for: it is {like}"
    return ""


def caveat(baseline: str) -> str:
    """Say what the owner must know of a baseline; empty where there is nothing.

    Example:
        >>> caveat("compile-freezing")
        'compile-freezing builds the weights in: where they change it is no choice, and another baseline counts'
    """
    if not keeps_weights(baseline):
        return ""
    return f"{baseline} builds the weights in: where they change it is no choice, and another baseline counts"
