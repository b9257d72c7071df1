"""`kernelwright lessons`: lessons of earlier runs, and whether they can be reproduced."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import InputError, NotFoundError, StoreError
from ..store import Store
from ._common import Common, Count, bounds_of, print_json, table

if TYPE_CHECKING:
    from ..learn import Lesson, Recalled
    from ..records import Evaluation

Action = Literal["list", "show", "search", "export", "import", "audit"]


def lessons(
    action: Action = "list",
    *what: str,
    to: Path | None = None,
    top: Count = 20,
    common: Common | None = None,
) -> int:
    """List, search, exchange or audit lessons of earlier runs: which edit had which measured effect, and where.

    Lessons are derived from decisions at the end of every run. `audit` derives each again from the evaluations
    in the store and recomputes their decisions from the raw blocks; the exit code is 1 if any differs.

    Args:
        action: `list` all, the latest first; `show KEY`; `search WORDS`; `export` with `--to FILE`; `import FILE`;
            `audit`.
        what: Words to search for, the key (or a prefix of it) of the lesson to show, or the file to import.
        to: File to export to; by default standard output.
        top: How many to list or find.
        common: Flags of every command.
    """
    common = common or Common()
    with Store(common.folder) as store:
        match action:
            case "list":
                return _list(store, common, top)
            case "show":
                return _show(store, common, _only(action, what, "the key of a lesson"))
            case "search":
                return _search(store, common, " ".join(what), top)
            case "export":
                return _export(store, common, to)
            case "import":
                return _import(store, common, Path(_only(action, what, "a file")))
            case "audit":
                return _audit(store, common)


def _list(store: Store, common: Common, top: int) -> int:
    from ..learn import kept_lessons

    kept = kept_lessons(store)[::-1]
    if common.json:
        for lesson in kept[:top]:
            print_json("lesson", key=lesson.key, says=str(lesson), **lesson.model_dump(mode="json"))
        print_json("result", lessons=len(kept))
    else:
        table(
            [_row(lesson) for lesson in kept[:top]], empty=f"no lessons in {common.folder}; runs leave them"
        )
    return 0


def _show(store: Store, common: Common, key: str) -> int:
    from ..learn import kept_lessons

    found = [lesson for lesson in kept_lessons(store) if lesson.key.startswith(key)]
    if len(found) != 1:
        many = "several lessons are" if found else "no lesson is"
        raise NotFoundError(f"{many} called {key!r}; `kernelwright lessons` lists them")
    if common.json:
        print_json("result", key=found[0].key, says=str(found[0]), **found[0].model_dump(mode="json"))
    else:
        print(found[0])
        print(found[0].model_dump_json(indent=2))
    return 0


def _search(store: Store, common: Common, words: str, top: int) -> int:
    from ..learn import recall

    found = recall(store, words=words, limit=top)
    for one in found:
        _print_recalled(one, common)
    if common.json:
        print_json("result", words=words, found=len(found))
    elif not found:
        print(f"no lesson tells of {words!r}")
    return 0


def _print_recalled(one: "Recalled", common: Common) -> None:
    if not common.json:
        print(one)
        return
    print_json(
        "lesson", key=one.lesson.key, says=str(one), score=one.score, agree=one.agree, against=one.against,
        **one.lesson.model_dump(mode="json"),
    )  # fmt: skip


def _export(store: Store, common: Common, to: Path | None) -> int:
    from ..learn import export_lessons, kept_lessons

    kept = kept_lessons(store)
    text = export_lessons(kept)
    if to is None:
        print(text, end="", flush=True)
        return 0
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {to} ({error.strerror}); choose another file with --to") from error
    _say(common, f"{len(kept)} lessons in {to}", exported=len(kept), to=str(to))
    return 0


def _import(store: Store, common: Common, file: Path) -> int:
    from ..learn import import_lessons

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read {str(file)!r} ({error}); expected a file of `lessons export`"
        ) from None
    taken = import_lessons(store, text, file.name)
    _say(
        common,
        f"{len(taken)} lessons from {file}, trusted less than our own",
        imported=len(taken),
        source=file.name,
    )
    return 0


def _audit(store: Store, common: Common) -> int:
    from ..learn import audit
    from ..search import decides_alike

    def same(run: str, evaluation: "Evaluation") -> bool:
        record = store.run(run)
        return decides_alike(evaluation, bounds_of(store.events(record.id)), store.task(record.task).contract)

    audited = audit(store, same)
    counts = {finding: sum(a.finding == finding for a in audited) for finding in {a.finding for a in audited}}
    rows = [{"finding": str(a.finding), **_row(a.lesson)} for a in audited]
    if common.json:
        for row in rows:
            print_json("lesson", **row)
        print_json("result", lessons=len(rows), **counts)
    else:
        table(rows, empty="no lessons to audit")
    return 1 if counts.keys() & {"differs", "no evidence"} else 0


def _row(lesson: "Lesson") -> dict[str, str]:
    return {
        "key": lesson.key,
        "outcome": lesson.outcome,
        "effect": str(lesson.effect) if lesson.effect else "",
        "where": f"{lesson.situation.family} {lesson.situation.elements:.2g} {lesson.situation.bound_by}",
        "edit": lesson.edit.what,
        "run": lesson.source or lesson.evidence.run,
    }


def _only(action: str, what: tuple[str, ...], expected: str) -> str:
    if len(what) != 1:
        raise InputError(f"lessons {action} was given {' '.join(what)!r}; expected {expected}")
    return what[0]


def _say(common: Common, sentence: str, **data: str | int) -> None:
    if common.json:
        print_json("result", **data)
    else:
        print(sentence)
