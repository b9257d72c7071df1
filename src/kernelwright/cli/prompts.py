"""`kernelwright prompts`: the versions of the prompts and their outcomes."""

from typing import TYPE_CHECKING

from ..store import Store
from ._common import Common, print_json, table

if TYPE_CHECKING:
    from ..learn.prompts import Outcomes, Version


def prompts(*, common: Common | None = None) -> int:
    """List each role's prompt versions used in this store, with the outcomes of their moves.

    A version with guidance is on trial against the shipped one, kept, or retired; only recipes with evolving
    prompts create any.

    Args:
        common: Flags of every command.
    """
    from ..learn.prompts import Outcomes, Version, prompt_outcomes, versions_of
    from ..propose.llm import Prompts

    common = common or Common()
    shipped = Prompts()
    current = {role: shipped.version(role) for role in shipped.roles()}
    with Store(common.folder) as store:
        outcomes = prompt_outcomes(store)
        evolved = {("coder", v.version): v for v in versions_of(store, current["coder"]) if v.guidance}
    rows = []
    for role, name in sorted(outcomes.keys() | evolved.keys()):
        known = evolved.get((role, name), Version(version=name))
        came = outcomes.get((role, name), Outcomes())
        standing = "replaced" if not known.guidance and current.get(role) != name else known.standing
        rows.append((role, known, standing, came))
    if common.json:
        for role, known, standing, came in rows:
            print_json(
                "prompt", role=role, version=known.version, standing=standing, guidance=known.guidance,
                **came.model_dump(mode="json"),
            )  # fmt: skip
        print_json("result", prompts=len(rows))
    else:
        table([_row(*row) for row in rows], empty=f"no prompt was used in {common.folder}")
    return 0


def _row(role: str, known: "Version", standing: str, came: "Outcomes") -> dict[str, str]:
    faster = f"{2 ** (came.log2_speedup / came.compared):.2f}x" if came.compared else ""
    return {
        "role": role, "version": known.version, "standing": standing, "moves": str(came.moves),
        "worked": str(came.worked), "against the parent": faster, "guidance": " ".join(known.guidance.split()),
    }  # fmt: skip
