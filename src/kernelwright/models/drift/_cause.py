"""Find the submodule that causes a drift: native ones are put in its place, half of them at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import nn

from ...records import Record
from ._answered import patched_paths

Drifts = Callable[[nn.Module], bool]
"""Whether a model, native and changed submodules mixed, still drifts."""


class Cause(Record):
    """Where a drift comes from."""

    path: str
    """Path of the submodule, such as `layers.1.attention`; empty for the model itself."""
    kind: str
    """Its class."""
    own: bool
    """Whether it is this module's own code: with all its submodules native it still drifts."""
    alone: bool
    """Whether this one in the place of the native one makes the native model drift."""
    kernel: str = ""
    """Name of the kernel there, where names were given."""
    tried: int = 0
    """How many mixtures were run."""

    def __str__(self) -> str:
        """Say it in words."""
        where = f"{self.path} ({self.kind})" if self.path else f"the model's own code ({self.kind})"
        own = ", not its submodules" if self.own and self.path else ""
        kernel = f", kernel {self.kernel}" if self.kernel else ""
        together = "" if self.alone else ", together with others"
        return f"{where}{own}{kernel}{together}"


def find_cause(
    native: nn.Module, changed: nn.Module, drifts: Drifts, *, kernels: Mapping[str, str] | None = None
) -> Cause:
    """Bisect over submodules that both models have under one path, from the top down.

    Args:
        native: The native model.
        changed: The changed one, which drifts.
        drifts: Runs a mixture.
        kernels: Names of kernels by the path of the submodule that each is in.

    Returns:
        The deepest submodule that explains the drift; where several do, the last of them.
    """
    tried = 0

    def counted(model: nn.Module) -> bool:
        nonlocal tried
        tried += 1
        try:
            return drifts(model)
        except (TypeError, RuntimeError, AttributeError, IndexError, KeyError, ValueError):
            return True  # they do not fit together, so nothing is known of a native part here

    path, alone, patched = "", True, patched_paths(changed)
    while path not in patched:  # with a native part in it, a patched one is native as a whole
        children = _shared_children(native, changed, path)
        base = changed if not path else native
        deeper = _last_to_blame(native, changed, base, path, children, counted)
        if deeper is None:
            break
        with swapped(native, {deeper: changed.get_submodule(deeper)}):
            explains = counted(native)
        path = deeper
        if not explains:
            alone = False
            break
    module = changed.get_submodule(path)
    own = alone and bool(_shared_children(native, changed, path))
    return Cause(
        path=path,
        kind=type(module).__name__,
        own=own,
        alone=alone,
        kernel=_kernel(path, kernels or {}),
        tried=tried,
    )


def _last_to_blame(
    native: nn.Module, changed: nn.Module, base: nn.Module, path: str, children: Sequence[str], drifts: Drifts
) -> str | None:
    """Return the last child without which, and all before it, the drift is gone; None if it never goes."""

    def with_first(count: int) -> bool:
        """Run with the first children native and the rest changed, in a module that is changed."""
        parts = {child: native.get_submodule(child) for child in children[:count]}
        if base is changed:
            with swapped(changed, parts):
                return drifts(changed)
        whole = changed.get_submodule(path)
        inside = {child.removeprefix(f"{path}."): part for child, part in parts.items()}
        with swapped(whole, inside), swapped(native, {path: whole}):
            return drifts(native)

    if not children or with_first(len(children)):
        return None
    low, high = 0, len(children)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if with_first(middle) else (low, middle)
    return children[high - 1]


def _shared_children(native: nn.Module, changed: nn.Module, path: str) -> list[str]:
    """Name the children of a submodule that both models have, those of lists in their place."""
    found: list[str] = []
    ours = dict(native.named_modules())
    for name, child in changed.get_submodule(path).named_children():
        full = f"{path}.{name}" if path else name
        if full not in ours:
            continue
        if isinstance(child, nn.ModuleList | nn.Sequential | nn.ModuleDict):
            found += _shared_children(native, changed, full)
        else:
            found.append(full)
    return found


@contextmanager
def swapped(model: nn.Module, parts: Mapping[str, nn.Module]) -> Iterator[None]:
    """Put other submodules in place for a while, by path.

    Example:
        >>> model = nn.Sequential(nn.ReLU(), nn.Tanh())
        >>> with swapped(model, {"1": nn.Identity()}):
        ...     inside = str(model[1])
        >>> inside, str(model[1])
        ('Identity()', 'Tanh()')
    """
    before = {path: model.get_submodule(path) for path in parts}
    try:
        for path, part in parts.items():
            _put(model, path, part)
        yield
    finally:
        for path, part in before.items():
            _put(model, path, part)


def _put(model: nn.Module, path: str, part: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    model.get_submodule(parent)._modules[name] = part


def _kernel(path: str, kernels: Mapping[str, str]) -> str:
    """Return the kernel of the nearest module around a path."""
    while path and path not in kernels:
        path = path.rpartition(".")[0]
    return kernels.get(path, "")
