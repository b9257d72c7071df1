"""`kernelwright compare`: compares recipes at equal budget."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ._asking import Asking
from ._common import Common, Count, Elements, Positive, print_json, speedup_text, table

if TYPE_CHECKING:
    from ..api.compare import Comparison
    from ..search.recipe import Recipe


def compare(
    *targets: str,
    recipes: str,
    evaluations: Count = 40,
    minutes: Positive | None = None,
    seeds: Count = 1,
    language: list[str] | None = None,
    device: str | None = None,
    max_elements: Elements | None = None,
    baseline: list[str] | None = None,
    tuner: str | None = None,
    settings: Annotated[list[str] | None, Parameter(name="--set")] = None,
    asking: Asking | None = None,
    to: Path | None = None,
    common: Common | None = None,
) -> int:
    """Run every recipe on every task with the same budget, and report the results.

    Each run has its own store, so that none profits from another. The same command continues an interrupted
    comparison.

    Args:
        targets: Tasks, as `optimize` takes them.
        recipes: Names or files of recipes, separated by commas; `kernelwright recipes` lists the shipped ones.
        evaluations: Evaluations of each run.
        minutes: Most minutes of each run.
        seeds: Number of seeds of each recipe on each task, from 0.
        language: Language to write kernels in; repeat for more.
        device: `cpu`, `cuda` or `cuda:N`.
        max_elements: Shrink sizes until inputs, parameters and outputs together fit.
        baseline: Native form to beat; repeat for more. By default as for `optimize`.
        tuner: Explores templates, the same for all; `gp` by default.
        settings: `RECIPE.NAME=VALUE` of a recipe's strategy, such as `--set polca.epsilon=0.3`; repeat for more.
        asking: Which language models, the same for all; `--usd` is the cap of each run.
        to: Where to write the report; by default into the comparison's folder.
        common: Flags of every command.
    """
    from ..api.compare import check
    from ..api.compare import compare as run_all
    from ..errors import InputError
    from ..records import Budget
    from ..report import render_comparison
    from ..search import DEFAULT_TUNER
    from ._console import reporting

    common, asking = common or Common(), asking or Asking()
    names = [name.strip() for name in recipes.split(",") if name.strip()]
    if not targets or not names:
        raise InputError(
            "compare needs a task and a recipe: `kernelwright compare TASK --recipes cudaforge,polca`"
        )
    composed = _recipes(names, settings or ())
    if not asking.model:
        raise InputError("recipes ask a language model, and none was named; add --model NAME (docs/llm.md)")
    budget = Budget(evaluations=evaluations, minutes=minutes, usd=asking.usd)
    arguments = {
        "languages": tuple(language or ()), "device": device, "baselines": tuple(baseline or ()),
        "tuner": tuner or DEFAULT_TUNER, "max_elements": max_elements,
    }  # fmt: skip
    check(targets, composed, usd=asking.usd, arguments=arguments, more=asking.options)
    with reporting(common, budget) as on_event:
        compared = run_all(
            targets, composed, budget=budget, seeds=seeds, store=common.folder, more=asking.options,
            on_event=on_event, arguments=arguments,
        )  # fmt: skip
    file = to or Path(compared.folder) / "comparison.html"
    file.write_text(render_comparison(compared, shlex.join(["kernelwright", *sys.argv[1:]])))
    if common.json:
        print_json(
            "result", comparison=compared.id, report=str(file),
            standings=[s.model_dump(mode="json") for s in compared.standings()],
            entries=[entry.model_dump(mode="json") for entry in compared.entries],
        )  # fmt: skip
    else:
        _print(compared)
        print(f"report: {file}")
    return 0


def _print(compared: "Comparison") -> None:
    """Print the standing of each recipe, then the result of each entry."""
    rows = [
        {
            "recipe": s.recipe, "speedup": speedup_text(s.speedup.model_dump()),
            "improved": f"{s.improved} of {s.entries}", "evaluations": str(s.evaluations),
            "failures": str(s.failures), "USD": f"{s.usd:.2f}",
        }
        for s in compared.standings()
    ]  # fmt: skip
    table(rows, empty="")
    for entry in compared.entries:
        result = entry.result
        spread = result.speedup.model_dump() if result.speedup else None
        print(f"{result.task}, {entry.recipe}, seed {entry.seed}: {result.decision}, {speedup_text(spread)}")


def _recipes(names: Sequence[str], words: Sequence[str]) -> "list[Recipe]":
    """Load recipes and apply `RECIPE.NAME=VALUE` words to the settings of their strategies."""
    from ..errors import InputError
    from ..search.recipe import load_recipe
    from ..search.strategies import settings_in

    recipes = {recipe.name: recipe for recipe in map(load_recipe, names)}
    for word in words:
        name, _, setting = word.partition(".")
        if name not in recipes or not setting:
            raise InputError(
                f"--set {word!r} is of no recipe that is compared; expected RECIPE.NAME=VALUE with one of "
                f"{', '.join(recipes)}"
            )
        changed = recipes[name].settings | settings_in(recipes[name].strategy, [setting])
        recipes[name] = recipes[name].model_copy(update={"settings": changed})
    return list(recipes.values())
