"""The families of ops to import: folders of `ops/` with a kernel."""

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

from ...errors import NotFoundError, known_names
from ...records import Build
from .op import Op

_HOME = Path(__file__).parents[1]


@cache
def families() -> tuple[str, ...]:
    """Name the families, in alphabetical order.

    Example:
        >>> "kmeans" in families()
        True
    """
    return tuple(sorted(f.parent.name for f in _HOME.glob("[!_]*/kernel.cpp")))


def family(name: str) -> ModuleType:
    """Import a family.

    Raises:
        NotFoundError: there is none of that name.

    Example:
        >>> family("kmeans").__name__
        'kernelwright.ops.kmeans'
    """
    if name not in families():
        raise NotFoundError(f"no family of ops is called {name!r}; {known_names(name, families())}")
    return importlib.import_module(f"kernelwright.ops.{name}")


def ops_of(module: ModuleType) -> tuple[Op, ...]:
    """Return the ops of a family, in the order of its file.

    Example:
        >>> ops_of(family("kmeans"))[0].name
        'kmeans_assign'
    """
    return tuple(module.KERNEL.ops)


def build(*names: str) -> dict[str, Build]:
    """Build the kernels of these families ahead of their first use, of all by default; returns each one's build.

    Raises:
        NotFoundError: there is no family of a name.

    Example:
        >>> {name: build.status for name, build in build("kmeans").items()}
        {'kmeans': <BuildStatus.OK: 'ok'>}
    """
    modules = {name: family(name) for name in names or families()}
    return {name: module.KERNEL.build() for name, module in modules.items()}
