"""Strategy and editors by name → the edits of one run."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from ...errors import InputError
from ...propose import Editor, Request
from ...propose.llm import LLMEditor
from ...propose.team import Team
from ...records import Scalar
from ...registry import Registry
from ..evaluation._evaluation import Evaluator
from ..recipe import SETTING, Recipe, recipe_of
from ..run._run import Search
from ..strategies import DEFAULT_STRATEGY, Means, Strategy, make_strategy
from ._edits import Edits, EditServices
from ._prompt_evolution import Evolving

WIDTH = 4
"""Moves under way at once, unless the run's option `edits` sets another number."""
_EDITORS = Registry("editors", "editor")


def make_editors(names: Sequence[str]) -> list[Editor]:
    """Make the named editors.

    Raises:
        NotFoundError: no editor is registered under a name.
    """
    return [make() for make in map(_EDITORS.load, names)]


def check_strategy(
    strategy: str, editors: Sequence[str], options: Mapping[str, Scalar | tuple[Scalar, ...]]
) -> None:
    """Check the strategy, editors and settings before anything is spent.

    Raises:
        NotFoundError: no strategy or editor of that name.
        InputError: a strategy without an editor, with editors that support none of its operators, or with unknown
            settings.
    """
    made = make_editors(editors)
    if made or strategy:
        strategy_of(strategy or DEFAULT_STRATEGY, _means(made, 0, {}) if made else Means(), options)
    if strategy and not made:
        raise InputError(
            f"strategy {strategy!r} asks editors for changes and none was named; add --editor NAME"
        )


def edits_of(setting: Search, request: Request, evaluator: Evaluator) -> AbstractContextManager[Edits | None]:
    """Make the edits of a run, resumed from its journal. None if the run has no editor."""
    run, meter = setting.run, setting.meter
    editors = make_editors(setting.names("editors"))
    if not editors:
        return nullcontext()
    recipe = recipe_of(run)
    if recipe is not None:
        editors = [Team(_by_its_prompts(editor, recipe, setting), recipe.steps) for editor in editors]
    name = str(run.options.get("strategy") or DEFAULT_STRATEGY)
    most = run.budget.evaluations

    def room(under_way: int) -> bool:
        return not meter.over(reserve=True) and (most is None or meter.evaluations + under_way < most)

    services = EditServices(
        editors, request, width=int(str(run.options.get("edits") or WIDTH)), room=room,
        left_s=meter.left_to_explore_s, emit=setting.emit,
    )  # fmt: skip
    strategy = strategy_of(name, _means(editors, run.seed, run.options), run.options)
    journal = setting.store.journal(run.id)
    return Edits(strategy, services, journal, evaluator.evaluations, evaluator.workloads)


def _by_its_prompts(editor: Editor, recipe: Recipe, setting: Search) -> Editor:
    """Return the editor with the prompts that the recipe selects; only a model's prompts evolve."""
    if recipe.prompts == "shipped" or not isinstance(editor, LLMEditor):
        return editor
    return Evolving(editor, setting.store, setting.run)


def strategy_of(name: str, means: Means, options: Mapping[str, Scalar | tuple[Scalar, ...]]) -> Strategy:
    """Make a strategy with the settings in a run's options."""
    settings = {
        key.removeprefix(SETTING): value
        for key, value in options.items()
        if key.startswith(SETTING) and not isinstance(value, tuple)
    }
    return make_strategy(name, means, settings)


def _means(editors: Sequence[Editor], seed: int, options: Mapping[str, Scalar | tuple[Scalar, ...]]) -> Means:
    operators = dict.fromkeys(operator for editor in editors for operator in editor.operators)
    models = options.get("models", ())
    return Means(seed, tuple(operators), tuple(map(str, models)) if isinstance(models, tuple) else ())
