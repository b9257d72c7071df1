"""A recipe: strategy, editors' steps, memory and prompts, composed in a short TOML file."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError, field_validator

from ..errors import InputError, NotFoundError, known_names
from ..propose.team import Steps
from ..records import Record, Run, Scalar

SETTING = "strategy."
"""Prefix of the run options that are the strategy's own settings."""
_SUFFIX = ".toml"


class Recipe(Record):
    """One search setup, as read from its file."""

    name: str
    """The file's name without the suffix."""
    title: str
    """One-line description."""
    source: str
    """The system it follows: paper, repository."""
    mechanism: str
    """The distinguishing mechanism that is reproduced."""
    left_out: str
    """What is not reproduced from the system."""
    proposers: tuple[str, ...] = ("start",)
    """Proposers of the initial candidates."""
    strategy: str
    """Name of the strategy that chooses moves."""
    settings: dict[str, Scalar] = {}
    """The strategy's own settings."""
    steps: dict[str, Steps] = {}
    """Steps around an operator, by operator; a file may list several operators, separated by spaces."""
    lessons: bool = False
    """Whether prompts include lessons from earlier runs."""
    figures: Literal["all", "relevant"] = "all"
    """Which of a profiler's counters prompts show: all, or those that matter for the candidate's bottleneck."""
    prompts: Literal["shipped", "evolving"] = "shipped"
    """Whether the coder's prompt is the shipped one or the best version so far."""

    @field_validator("steps", mode="before")
    @classmethod
    def _each(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {operator: steps for operators, steps in given.items() for operator in str(operators).split()}

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `kernelwright.optimize` for a search by this recipe.

        Example:
            >>> load_recipe("polca").arguments()["strategy"]
            'queue'
        """
        settings = {f"{SETTING}{name}": value for name, value in self.settings.items()}
        return {
            "proposers": self.proposers,
            "strategy": self.strategy,
            "editors": ("llm",),
            "more": {"recipe": self.to_json(), "lessons": self.lessons, "figures": self.figures, **settings},
        }


def recipe_names() -> tuple[str, ...]:
    """Return the names of the shipped recipes."""
    folder = files("kernelwright") / "recipes"
    return tuple(sorted(f.name.removesuffix(_SUFFIX) for f in folder.iterdir() if f.name.endswith(_SUFFIX)))


def load_recipe(name: str) -> Recipe:
    """Load a shipped recipe by name, or any recipe by the path of its file.

    Raises:
        NotFoundError: there is no such recipe or file.
        InputError: the file is not a recipe; the message names the field.

    Example:
        >>> load_recipe("cudaforge").steps["improve"].first
        ('critique',)
    """
    if name.endswith(_SUFFIX):
        path = Path(name)
        if not path.is_file():
            raise NotFoundError(
                f"there is no recipe file {name!r}; `kernelwright recipes` lists what is shipped"
            )
        return _read(path.stem, path.read_text())
    if name not in recipe_names():
        raise NotFoundError(f"no recipe is called {name!r}; {known_names(name, recipe_names())}")
    return _read(name, (files("kernelwright") / "recipes" / f"{name}{_SUFFIX}").read_text())


def _read(name: str, text: str) -> Recipe:
    try:
        return Recipe.model_validate({"name": name, **tomllib.loads(text)})
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"recipe {name!r} is not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"recipe {name!r}, {where}: {first['msg']}; given {first['input']!r}") from None


def recipe_of(run: Run) -> Recipe | None:
    """Return the recipe that a run follows, as it was when the run began."""
    text = run.options.get("recipe")
    return Recipe.from_json(str(text)) if text else None
