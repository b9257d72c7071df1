"""Which sizes hidden and confirm workloads may change."""

from collections.abc import Collection

from ...errors import TaskError, known_names

Groups = tuple[tuple[str, ...], ...]
"""Names of sizes; those in one tuple change together."""


def left_free(free: Groups, fixed: Collection[str], origin: str) -> Groups:
    """Return the groups that hold none of the `fixed` names.

    Raises:
        TaskError: a name is not a size that could change.

    Example:
        >>> left_free((("rows",), ("dim", "inner")), {"inner"}, "task.py")
        (('rows',),)
    """
    names = {name for group in free for name in group}
    for name in fixed:
        if name not in names:
            raise TaskError(f"{origin} has no size {name!r} to keep fixed; {known_names(name, names)}")
    return tuple(group for group in free if not set(fixed).intersection(group))
