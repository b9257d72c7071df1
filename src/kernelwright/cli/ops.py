"""`kernelwright ops`: the library of verified ops."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import InputError
from ._common import Common, print_json, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..api.ops import Verified

Action = Literal["list", "build", "verify"]


def ops(
    action: Action = "list",
    *families: str,
    screen: bool = False,
    brief: bool = False,
    baseline: list[str] | None = None,
    to: Path | None = None,
    common: Common | None = None,
) -> int:
    """List, build or verify the ops that `kernelwright.ops` offers.

    Args:
        action: `list` every op, what runs on this machine's processor, and what on a GPU; `build` the kernels of the
            named families ahead of their first use, of all by default; `verify` what is named by the judge, each
            op against its reference on its cases (exit code 1 if one does not hold).
        families: Names of families, of ops, or of one case of an op (`conv-2`); `all` is all families.
        screen: Of `verify`: stop where a search ranks a candidate, before hidden workloads and confirmation.
        brief: Of `verify`: print a row of a table for each op, as it is done, instead of its claim sheet.
        baseline: Of `verify`: what ops are timed against; `eager` and `compile` by default, which takes longer.
        to: Folder for the claim sheets of `verify`, one file an op.
        common: Flags of every command.
    """
    common = common or Common()
    match action:
        case "list":
            return _list(families, common)
        case "build":
            return _build(families, common)
        case "verify":
            if not families:
                raise InputError(
                    "`kernelwright ops verify` needs the name of a family, an op or `all`; `kernelwright ops` lists all"
                )
            judged = _judged(families, tuple(baseline or ("eager", "compile")), screen, common)
            return _verify(judged, brief, to, common)


def _list(names: tuple[str, ...], common: Common) -> int:
    from ..ops import family, ops_of

    rows = []
    for name, only in _meant(names):
        for op in (op for op in ops_of(family(name)) if not only or op.name in only):
            runs, what = op.state()
            rows.append({"family": name, "op": op.name, "runs": runs, "state": what, "gpu": op.on_gpu()})
    if common.json:
        for row in rows:
            print_json("op", **row)
        print_json("result", ops=len(rows))
    else:
        table(rows, empty="no family has an op")
    return 0


def _meant(names: tuple[str, ...]) -> list[tuple[str, frozenset[str]]]:
    """Return the families that names of families, ops and cases mean, and of each the ops, none where it is all."""
    from ..ops import families

    if not names or names == ("all",):
        return [(name, frozenset()) for name in families()]
    if set(names) <= set(families()):
        return [(name, frozenset()) for name in names]
    from ..api.ops import chosen, named_cases

    found = [(name, *chosen(name)) for name in names]
    return [
        (family, frozenset() if name == family else frozenset(named_cases(family)[case].op for case in cases))
        for name, family, cases in found
    ]


def _build(names: tuple[str, ...], common: Common) -> int:
    from ..ops import build

    failed = 0
    for name in dict.fromkeys(name for name, _ in _meant(names)):
        one = build(name)[name]
        failed += one.status != "ok"
        if common.json:
            print_json("build", family=name, status=str(one.status), time_s=one.time_s, artefact=one.artefact)
        else:
            took = f"built in {one.time_s:.1f} s" if one.time_s else "in the cache"
            print(f"{name}: {took if one.status == 'ok' else one.diagnostics}")
    if common.json:
        print_json("result", failed=failed)
    return 1 if failed else 0


def _judged(
    names: tuple[str, ...], baselines: tuple[str, ...], screen: bool, common: Common
) -> "Iterator[Verified]":
    from ..api.ops import chosen, verify_family
    from ..ops import families

    asked = [chosen(name) for name in (families() if names == ("all",) else names)]
    for family, only in asked:
        yield from verify_family(family, only=only, screen=screen, baselines=baselines, store=common.folder)


def _verify(judged: "Iterable[Verified]", brief: bool, to: Path | None, common: Common) -> int:
    from ..api.ops import line, sheet

    wrong: list[str] = []
    for number, one in enumerate(judged):
        wrong += [] if one.holds else [one.op]
        if to is not None:
            to.mkdir(parents=True, exist_ok=True)
            (to / f"{one.op}.md").write_text(sheet(one))
        if common.json:
            print_json(
                "op", op=one.op, holds=one.holds, workloads=one.workloads, special=one.special,
                special_wrong=list(one.special_wrong),
                judgement=one.judgement.model_dump(mode="json"), admission=one.admission.model_dump(mode="json"),
            )  # fmt: skip
        elif brief:
            row = line(one)
            if not number:
                print("\t".join(row))
            print("\t".join(row.values()), flush=True)
        else:
            print(sheet(one))
    if common.json:
        print_json("result", holds=not wrong, wrong=list(wrong))
    return 1 if wrong else 0
