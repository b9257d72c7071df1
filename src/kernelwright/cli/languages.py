"""`kernelwright languages`: what is timed, sanitised, executed or compiled, here and where it was last so."""

from pathlib import Path

from pydantic import JsonValue

from ..store import Store
from ._common import Common, print_json, table


def languages(
    *, evidence: list[Path] | None = None, out: Path | None = None, common: Common | None = None
) -> int:
    """Show for each language and target what this machine can reach, and what recorded runs have shown, and where.

    `timed`: on a device; `sanitised`: executed from its PTX and nothing found; `executed`: run without times;
    `compiled`: by its compiler alone; `not here`: the last lines say why. No time of a target without a device is ever
    shown anywhere.

    Args:
        evidence: Files that `--out` wrote, on this or another machine, to add to what the store shows.
        out: File to write what was shown to, a line of JSON each.
        common: Flags of every command.
    """
    from ..api.languages import here, latest, read_evidence, seen_in, write_evidence

    common = common or Common()
    with Store(common.folder) as store:
        rows = list(seen_in(store))
    shown = latest([*rows, *(row for path in evidence or () for row in read_evidence(path))])
    if out is not None:
        write_evidence(out, shown)
    listed = []
    reached: list[tuple[str, str, str, str]] = [*here()]
    known = {(language, target) for language, target, _, _ in reached}
    reached += [(r.language, r.target, "-", "") for r in shown if (r.language, r.target) not in known]
    for language, target, state, what in dict.fromkeys(reached):
        mine = [row for row in shown if (row.language, row.target) == (language, target)]
        last = "; ".join(f"{row.state} on {row.machine}, {row.when[:10]}, run {row.run}" for row in mine)
        if common.json:
            seen: list[JsonValue] = [row.model_dump(mode="json") for row in mine]
            print_json("language", language=language, target=target, here=state, tools=what, seen=seen)
        listed.append({"language": language, "target": target, "here": state, "last": last or "never"})
    if common.json:
        print_json("result", rows=len(listed))
    else:
        table(listed, empty="no language is installed")
        reasons = {language: what for language, _, state, what in reached if state == "not here" and what}
        for language, what in reasons.items():
            print(f"{language} is not here: {what}")
    return 0
