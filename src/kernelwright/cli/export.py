"""`kernelwright export`: the accepted kernel as a package."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ..errors import NotFoundError
from ..store import Store
from ._common import Common, print_json


def export(
    run: str,
    *,
    to: Path,
    form: Annotated[
        Literal["package", "kernels", "flashinfer-bench"], Parameter(name="--format")
    ] = "package",
    common: Common | None = None,
) -> int:
    """Write a run's accepted kernel as a small importable package with its guard, claim and test.

    Args:
        run: The run's id, a prefix of it, or `last`.
        to: Folder to write; an earlier export in it is replaced.
        form: `package`, to put on the import path; `kernels`, the layout of that library of Hugging Face, with a layer
            for its `kernelize`; `flashinfer-bench`, of a run on a definition the trace set that its `apply` takes.
        common: Flags of every command.
    """
    from ..search import accepted_of, environment_of, package_accepted

    common = common or Common()
    with Store(common.folder) as store:
        record = store.run(run)
        environment = environment_of(store.events(record.id))
        accepted = accepted_of(store, record)
        task = store.task(record.task)
    if not accepted:
        raise NotFoundError(f"run {record.id} accepted no kernel, so there is nothing to export")
    if form == "flashinfer-bench":
        from ..devices import detect
        from ..suites import write_apply_set

        at = datetime.now(UTC).isoformat(timespec="seconds")
        folder = write_apply_set(task, accepted[0].candidate, to, hardware=detect().name, at=at)
    else:
        folder = package_accepted(task, record, accepted, to, environment, form)
    if common.json:
        print_json("result", run=record.id, kernel=str(folder))
    else:
        print(folder)
    return 0
