"""reference-kernels' problems with two entries: `reference_forward` and `reference_backward` as one `ref_kernel`.

Source: gpu-mode/reference-kernels, problems/princeton/cross_entropy_py (eval.py, reference.py).
"""

import ast
import re
from typing import Any

_ENTRIES = re.compile(r"\(\s*['\"](\w+_forward)['\"],\s*['\"](\w+_backward)['\"]\s*\)")
_BATCH = re.compile(r"^B = ([\d_]+)$", re.MULTILINE)
_MARKS = ("def reference_forward(logits, targets)", "def reference_backward(logits,", "def generate_inputs(")
_NAMED = "\n\nkw_entries = "
_AS_ONE = """


def generate_input(batch_size, vocab_size, seed):
    return generate_inputs(batch_size, vocab_size, seed)


def ref_kernel(data):
    logits, targets, grad_output = data
    return reference_forward(logits, targets), reference_backward(logits, targets, grad_output)


def check_implementation(data, output):
    for name, given, expected in zip(("forward", "backward"), output, ref_kernel(data), strict=True):
        if given.shape != expected.shape or given.dtype != expected.dtype:
            return False, f"{name}: shape or dtype mismatch"
        if not torch.allclose(given, expected, atol=ATOL, rtol=RTOL):
            return False, f"{name}: values mismatch"
    return True, ""
"""


def has_two(reference: str) -> bool:
    """Tell whether a reference is of this form.

    Example:
        >>> has_two("def ref_kernel(data): ...")
        False
    """
    return all(mark in reference for mark in _MARKS)


def as_one(reference: str, evaluator: str) -> str:
    """Return a reference's text with `ref_kernel`, for the results of both entries that the evaluator names."""
    found = _ENTRIES.search(evaluator)
    names = found.groups() if found else ("forward", "backward")
    return f"{reference}{_AS_ONE}{_NAMED}{names!r}\n"


def complete(spec: dict[str, Any], evaluator: str) -> dict[str, Any]:
    """Return a test's entry with the size that its evaluator has as a constant, and the seed that it begins with.

    Example:
        >>> complete({"vocab_size": 32}, "B = 4_096")
        {'batch_size': 4096, 'vocab_size': 32, 'seed': 42}
    """
    found = _BATCH.search(evaluator)
    return {"batch_size": int(found[1].replace("_", "")) if found else 1, **spec, "seed": 42}


def entries_of(reference: str) -> tuple[str, str]:
    """Return the names that a kernel has to define, with a comma between, and a call of both on `data`.

    Example:
        >>> entries_of(as_one("", "('a_forward', 'a_backward')"))
        ('a_forward, a_backward', '(a_forward(data[0], data[1]), a_backward(*data))')
        >>> entries_of("def ref_kernel(data): ...")
        ('custom_kernel', 'custom_kernel(data)')
    """
    _, marked, said = reference.partition(_NAMED)
    if not marked:
        return "custom_kernel", "custom_kernel(data)"
    forward, backward = ast.literal_eval(said)
    return f"{forward}, {backward}", f"({forward}(data[0], data[1]), {backward}(*data))"
