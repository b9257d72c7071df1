"""The baselines that a candidate is measured against, by name."""

from ..records import Workload

FLAGS = {
    "eager": (),
    "compile": ("--compile=default",),
    "compile-max-autotune": ("--compile=max-autotune",),
    "compile-freezing": ("--compile=freezing",),
    "compile-max-autotune-freezing": ("--compile=max-autotune-freezing",),
    "openvino": ("--runtime=openvino",),
    "onnxruntime": ("--runtime=onnxruntime",),
}
"""Baseline → the flags of language `torch` under which the reference is that baseline."""
_FREEZING = "-freezing"
_RUNTIMES = ("openvino", "onnxruntime")
"""Baselines that another runtime than torch's computes, from the weights of the conversion."""


def keeps_weights(baseline: str) -> bool:
    """Whether a baseline compiles in the first weights that it receives, and keeps using them.

    Example:
        >>> keeps_weights("compile-freezing"), keeps_weights("openvino"), keeps_weights("compile")
        (True, True, False)
    """
    return baseline in _RUNTIMES or baseline.endswith(_FREEZING)


def superfluous(baseline: str, workload: Workload) -> str:
    """Return why a baseline adds nothing on a workload; empty if it does."""
    if baseline in _RUNTIMES:
        return f"{baseline} answers no gradients" if workload.cotangents else ""
    if not keeps_weights(baseline):
        return ""
    like = baseline.removesuffix(_FREEZING)
    if not workload.state:
        return f"the task owns no weights that could be built in: it is {like}"
    if workload.cotangents:
        return f"nothing is built in where gradients are asked for: it is {like}"
    return ""


def caveat(baseline: str) -> str:
    """Return what the owner must know about a baseline; empty if nothing.

    Example:
        >>> caveat("compile-freezing")
        'compile-freezing builds the weights in: where they change it is no choice, and another baseline counts'
    """
    if not keeps_weights(baseline):
        return ""
    return f"{baseline} builds the weights in: where they change it is no choice, and another baseline counts"
