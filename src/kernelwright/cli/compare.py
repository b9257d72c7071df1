"""`kernelwright compare`: recipes head to head at equal budget."""

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ._common import Common, print_json, speedup_text, table

_Names = Annotated[list[str] | None, Parameter(negative="")]
_Count = Annotated[int, Parameter(validator=Number(gte=1))]


def compare(
    *targets: str,
    recipes: str,
    evaluations: _Count = 40,
    minutes: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    seeds: _Count = 1,
    language: _Names = None,
    device: str | None = None,
    max_elements: Annotated[float | None, Parameter(validator=Number(gte=1))] = None,
    model: _Names = None,
    usd: Annotated[float | None, Parameter(validator=Number(gte=0))] = None,
    price: _Names = None,
    to: Path | None = None,
    common: Common | None = None,
) -> int:
    """Run every recipe on every task with the same budget, and write who found what.

    Each run has a store of its own, so that none profits from another. The same command goes on with a
    comparison that was interrupted.

    Args:
        targets: Tasks, as `optimize` takes them.
        recipes: Names or files of recipes, with commas between them; `kernelwright recipes` lists the shipped.
        evaluations: Evaluations of each run.
        minutes: Most minutes of each run.
        seeds: Seeds of each recipe on each task, from 0.
        language: Language to write kernels in; repeat for more.
        device: `cpu`, `cuda` or `cuda:N`.
        max_elements: Shrink sizes until inputs, parameters and outputs together fit.
        model: Language model to ask, the same for all; repeat for more.
        usd: Most money that each run may spend on models.
        price: What a model costs where that is not listed: `IN,OUT` in USD a million tokens, or `NAME=IN,OUT`.
        to: Where to write the report; into the comparison's folder by default.
        common: Flags of every command.
    """
    import sys

    from ..compare import compare as run_all
    from ..errors import InputError
    from ..records import Budget
    from ..report import render_comparison
    from ..search.recipe import load_recipe
    from ._console import reporting

    common = common or Common()
    names = [name.strip() for name in recipes.split(",") if name.strip()]
    if not targets or not names:
        raise InputError(
            "compare needs a task and a recipe: `kernelwright compare TASK --recipes cudaforge,polca`"
        )
    budget = Budget(evaluations=evaluations, minutes=minutes, usd=usd)
    more = {"models": tuple(model or ()), "prices": tuple(price or ())}
    with reporting(common.json, budget) as on_event:
        compared = run_all(
            targets, [load_recipe(name) for name in names], budget=budget, seeds=seeds, store=common.folder,
            more={name: value for name, value in more.items() if value}, on_event=on_event,
            arguments={
                "languages": tuple(language or ()), "device": device,
                "max_elements": None if max_elements is None else int(max_elements),
            },
        )  # fmt: skip
    standings = compared.standings()
    file = to or Path(compared.folder) / "comparison.html"
    file.write_text(render_comparison(compared, shlex.join(["kernelwright", *sys.argv[1:]])))
    if common.json:
        print_json(
            "result", comparison=compared.id, report=str(file),
            standings=[s.model_dump(mode="json") for s in standings],
            legs=[leg.model_dump(mode="json") for leg in compared.legs],
        )  # fmt: skip
        return 0
    table(
        [
            {
                "recipe": s.recipe, "speedup": f"{s.speedup:.3f}", "improved": f"{s.improved} of {s.legs}",
                "evaluations": str(s.evaluations), "failures": str(s.failures), "USD": f"{s.usd:.2f}",
            }
            for s in standings
        ],
        empty="",
    )  # fmt: skip
    for leg in compared.legs:
        spread = leg.result.speedup.model_dump() if leg.result.speedup else None
        print(
            f"{leg.result.task}, {leg.recipe}, seed {leg.seed}: {leg.result.decision}, {speedup_text(spread)}"
        )
    print(f"report: {file}")
    return 0
