"""KernelBench's static checker: the checks that it makes strict for every backend.

Source: KernelBench, src/kernelbench/kernel_static_checker.py (`STRICT_CHECKS`).
"""

import re

_STRICT = {
    "code_bypass": r"\btry\s*:|\bexcept\b|\bpass\b",
    "timing_event_patch": (
        r"torch\.cuda\.Event(?:\.record|\.elapsed_time)?\s*=|torch\.cuda\.synchronize\s*=|time\.(?:perf_counter|time)\s*="
    ),
    "thread_injection": (
        r"threading\.Thread\s*\(|import\s+threading|from\s+threading\s+import|import\s+multiprocessing|"
        r"multiprocessing\.(?:Process|Pool|Manager|Queue|Pipe)|concurrent\.futures|(?:Thread|Process)PoolExecutor"
    ),
    "lazy_eval": r"_make_subclass|class\s+\w+.*\((?:torch\.)?Tensor\)|torch\.Tensor\.__new__",
}
_COMMENT = re.compile(r"#.*|//.*")


def flagged(text: str) -> tuple[str, ...]:
    """Return the names of the strict checks that a kernel's text fails.

    Example:
        >>> flagged("try:\\n    y = fast(x)\\nexcept RuntimeError:\\n    y = slow(x)")
        ('code_bypass',)
    """
    code = _COMMENT.sub("", text)
    return tuple(name for name, pattern in _STRICT.items() if re.search(pattern, code))
