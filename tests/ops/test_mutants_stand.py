"""What mutants of kernels change stands in them: looked for in all families, without the judge that refuses them."""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.ops.mutants import mutant_of

from kernelwright import ops
from kernelwright.api.ops import candidate_of, cases_of

_BATTERY = "test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it"
_HERE = Path(__file__).parent
MODULES = sorted(
    ".".join(("tests", "ops", *path.relative_to(_HERE).with_suffix("").parts))
    for path in _HERE.rglob("test_*.py") if path != Path(__file__) and f"def {_BATTERY}" in path.read_text()
)  # fmt: skip


def look(module: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Call a module's battery with what only makes the mutants; return the families that it has mutants of."""
    families = set()

    def standing(
        family: str, op: str, mutants: Mapping[str, tuple[str, str]], _: Path, *, at: int = 0
    ) -> dict[str, str]:
        made = candidate_of(family, [one for one in cases_of(family) if one.op == op][at])
        assert (
            len({mutant_of(made, change).key for change in mutants.values()} | {made.key}) == len(mutants) + 1
        )
        families.add(family)
        return {"": "accepted"} | dict.fromkeys(mutants, "rejected")

    held = importlib.import_module(module)
    monkeypatch.setattr(held, "verdicts", standing)
    for given in _calls(getattr(held, _BATTERY)):
        getattr(held, _BATTERY)(**given, tmp_path=Path())
    return families


def _calls(battery: object) -> Iterator[dict[str, object]]:
    """Yield the arguments of each call that a battery is parametrized by."""
    marks = [one for one in getattr(battery, "pytestmark", []) if one.name == "parametrize"]
    if not marks:
        yield {}
    for mark in marks:
        names = mark.args[0]
        for values in mark.args[1]:
            yield {names: values} if isinstance(names, str) else dict(zip(names, values, strict=True))


@pytest.mark.parametrize("module", MODULES)
def test_what_a_mutant_changes_stands_in_the_kernel(module, monkeypatch):
    assert look(module, monkeypatch)


def test_every_family_with_a_kernel_has_mutants(monkeypatch):
    there = set().union(*(look(module, monkeypatch) for module in MODULES))
    assert there == {name for name in ops.families() if cases_of(name)}


def test_a_text_that_a_kernel_has_no_more_is_told_of(monkeypatch):
    from tests.ops.conv import test_conv_mutants as stale

    monkeypatch.setitem(stale.MUTANTS, "of an earlier kernel", ("what no source has", ""))
    with pytest.raises(AssertionError, match="what no source has"):
        look(stale.__name__, monkeypatch)
