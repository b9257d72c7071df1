"""What was accepted on this machine, whether it is in use, and what it was last checked with."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ..records import Record
from ..store import Store

_KIND = "installed"
SWITCHED = "switched_off.json"
"""File of a package with the names of kernels that serve no more, each with the reason."""
_SAME = ("device", "microcode", "torch")
"""What a kernel's right and speed may depend on, apart from compilers; the rest of the environment is not compared."""

State = Literal["in use", "native", "removed"]


class Installed(Record):
    """The state of what one run accepted."""

    run: str
    """The run."""
    state: State = "in use"
    """`native` where it no longer held; `removed` where its owner took it out."""
    reason: str = ""
    """Why it is not in use."""
    checked: dict[str, str] = {}
    """The environment in which it was last found to hold, if after its acceptance."""


def installed(store: Store, run: str) -> Installed:
    """Return the state of what a run accepted; what nobody changed is in use.

    Example:
        >>> import tempfile
        >>> with Store(Path(tempfile.mkdtemp())) as store:
        ...     installed(store, "some run").state
        'in use'
    """
    found = [one for one in map(Installed.from_json, store.kept(_KIND)) if one.run == run]
    return found[-1] if found else Installed(run=run)


def set_installed(store: Store, state: Installed) -> None:
    """Keep a state, and let the package of that run in the store follow it."""
    store.keep(_KIND, state.run, {state.run: state.to_json()})
    switch(package_of(store, state.run), state.reason if state.state != "in use" else "")


def package_of(store: Store, run: str) -> Path:
    """Return the folder in which the store keeps the package of a run, if it accepted one."""
    return store.folder / "kernels" / run


def switch(folder: Path, reason: str) -> None:
    """Switch all kernels of a package to native for a reason, or back on where there is none.

    A package that is imported already goes on as it was until its process ends.
    """
    for table in folder.glob("*/specialisations.json"):
        names = [row["name"] for row in json.loads(table.read_text())]
        file = table.with_name(SWITCHED)
        if reason:
            file.write_text(json.dumps(dict.fromkeys(names, reason)))
        else:
            file.unlink(missing_ok=True)


def changed(accepted: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is not as it was, in words, of what a kernel's right and speed may depend on.

    Example:
        >>> changed({"torch": "2.12", "device": "a"}, {"torch": "2.13", "device": "a"})
        ('torch 2.12, now 2.13',)
    """
    return tuple(
        f"{name} {accepted[name]}, now {now[name]}"
        for name in (*_SAME, *(n for n in now if n.startswith("toolchain of ")))
        if name in accepted and name in now and accepted[name] != now[name]
    )
