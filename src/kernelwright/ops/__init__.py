"""Verified kernels to import and use: each op has a reference, a kernel that was judged against it, and a guard.

    import kernelwright.ops as ops

    model = ops.kmeans.KMeans(n_clusters=64).fit(x)
    labels, distances = ops.kmeans.assign(x, centroids)

A folder here is a family, imported when it is first used. Its kernels are built on first use, or ahead by
`kernelwright ops build`. A call that no kernel serves (another device or dtype, no compiler) runs the family's
reference, which is right everywhere, and says so once by a warning. The number of threads is torch's.

`families()` names what there is, `explain` says what would serve a call and why, `watch` what did, `build`
builds ahead.

A folder with a `template.py` has parametric kernels too, which `optimize` proposes: `match_all` yields those that
compute a task's graph. To add an op or its parametric form, see `docs/adding-an-op.md`.
"""

from types import ModuleType

from ._core import Cases, Explanation, Kernel, Op, build, explain, families, family, ops_of, watch
from ._parametric import KernelTemplate, Rendered, match_all

__all__ = [
    "Cases", "Explanation", "Kernel", "KernelTemplate", "Op", "Rendered", "build", "explain", "families", "family",
    "match_all", "ops_of", "watch",
]  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    """Import a family when it is first used."""
    if name not in families():
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; there are {', '.join(families())}"
        )
    return family(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *families()])
