"""`kernelwright trajectories`: exports runs as training data."""

from pathlib import Path

from ..errors import StoreError
from ..store import Store
from ._common import Common, print_json


def trajectories(*, to: Path, run: list[str] | None = None, common: Common | None = None) -> int:
    """Write each candidate with its parents and its judgement, one line of JSON per candidate.

    The file contains results on hidden workloads; keep it from authors who will be judged on the same tasks.

    Args:
        to: File to write, JSON lines.
        run: A run's id, a prefix of it, or `last`; repeat for more. By default every run.
        common: Flags of every command.
    """
    from ..learn import steps_of

    common = common or Common()
    written = 0
    with Store(common.folder) as store:
        names = run or [record.id for record in reversed(store.runs())]
        try:
            with to.open("w", encoding="utf-8") as file:
                for name in names:
                    for step in steps_of(store, name):
                        file.write(f"{step.to_json()}\n")
                        written += 1
        except OSError as error:
            raise StoreError(
                f"cannot write {to} ({error.strerror}); choose another file with --to"
            ) from error
    if common.json:
        print_json("result", runs=len(names), steps=written, to=str(to))
    else:
        print(f"{written} steps of {len(names)} runs in {to}")
    return 0
