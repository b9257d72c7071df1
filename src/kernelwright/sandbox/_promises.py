"""What the sandbox promises, by the layers that a probe confirmed: the one place that maps layers to promises.

A promise is made where all its layers hold. Where they do not, it is not made: `doctor` and the claim sheet say so.

Covers: every promise that `Pool.promises` lists, whatever tool or kernel feature gives the layers.
Does not cover: metadata (a worker of our own user under Landlock may change the mode of a file that it cannot read).
"""

from collections.abc import Collection

_FILES_CLOSED = ("bubblewrap", "landlock")
_ANY: tuple[str, ...] = ()

_NEEDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "files of the judge cannot be read": ((), _FILES_CLOSED),
    "only the private folder can be written": (("read-only",), _FILES_CLOSED),
    "a baseline's compile cache is not seen by candidates": ((), _FILES_CLOSED),
    "system calls that reach out are refused": (("seccomp", "no-capabilities"), _ANY),
    "no network": (("no-network", "seccomp"), _ANY),
    "nothing is left alive": (("process-group", "pid-namespace"), _ANY),
    "workers do not reach each other": (("pid-namespace",), _ANY),
    "memory is bounded": (("rlimits",), _ANY),
    "the judge's environment is not seen": (("environment",), _ANY),
    "answers are read from a stopped process": (("frozen-read",), _ANY),
}
"""Of each promise the layers that it needs, all of them, and those of which it needs one."""

PROMISES = tuple(_NEEDS)
"""Every promise that a sandbox can make."""


def promises(layers: Collection[str]) -> tuple[str, ...]:
    """Name the promises that these layers keep.

    Example:
        >>> promises(["rlimits", "no-network"])
        ('memory is bounded',)
        >>> promises(["no-network", "seccomp"])
        ('no network',)
    """
    return tuple(name for name, needs in _NEEDS.items() if _kept(layers, *needs))


def _kept(layers: Collection[str], every: tuple[str, ...], one_of: tuple[str, ...]) -> bool:
    return set(every) <= set(layers) and (not one_of or bool(set(one_of) & set(layers)))
