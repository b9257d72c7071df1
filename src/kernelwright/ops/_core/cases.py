"""Cases: the workloads that an op is verified on, as a task of the judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Sizes = Mapping[str, int | float | str | bool]
"""One workload: a value for each axis, and for scalars and dtypes that differ between workloads."""


@dataclass(frozen=True)
class Cases:
    """Workloads of one op; its reference on them is a task, which the judge verifies the kernel against.

    `arguments` and workloads are written as for `@kw.task`. The reference is a function of `reference.py` in the
    family's folder, which imports nothing but torch.
    """

    op: str
    """Name of the op without the library's: `kmeans_assign`."""
    reference: str
    """The function of `reference.py`."""
    arguments: Mapping[str, str]
    """A declaration for each tensor argument: `dtype[sizes] words`."""
    timed: Sequence[Sizes]
    """Workloads that are verified and timed."""
    verified: Sequence[Sizes] = ()
    """Workloads that are verified: tails, ones, primes, empty ones."""
    regimes: Sequence[str] | None = None
    """Value regimes that may be laid over them; all that the reference accepts if none."""
    no_infinity: Sequence[str] = ()
    """Arguments in which special values are NaN alone: an infinite factor gives another answer in each order of
    products and sums, NaN the same."""
    contract: Mapping[str, object] = field(default_factory=dict)
    """Fields of the `Contract` that differ from its defaults."""

    def file(self, folder: Path) -> tuple[Path, str]:
        """Return the path and the text of the task's file, which would lie beside `reference.py`.

        Example:
            >>> cases = Cases("f", "f", {"x": "float32[n]"}, timed=[{"n": 3}])
            >>> print(cases.file(Path("ops/f"))[1].splitlines()[-1])
            task = kw.task(workloads=[{'n': 3}], hidden=None, regimes=None, contract=kw.Contract(), x='float32[n]')(f)
        """
        words = {
            "workloads": list(map(dict, self.timed)),
            "hidden": list(map(dict, self.verified)) or None,
            "regimes": None if self.regimes is None else list(self.regimes),
            **({"no_infinity": list(self.no_infinity)} if self.no_infinity else {}),
        }
        given = [f"{name}={value!r}" for name, value in words.items()]
        given.append(f"contract=kw.Contract({', '.join(f'{n}={v!r}' for n, v in self.contract.items())})")
        given += [f"{name}={words!r}" for name, words in self.arguments.items()]
        lines = [
            f'"""The task of {self.op}: its reference on its cases."""', "",
            f"from reference import {self.reference}", "", "import kernelwright as kw", "",
            f"task = kw.task({', '.join(given)})({self.reference})",
        ]  # fmt: skip
        return folder / f"{self.op}.py", "\n".join(lines) + "\n"
