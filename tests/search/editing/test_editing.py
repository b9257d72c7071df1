"""Strategy and editors by name: checked before anything is spent, kept with the run, taken up again."""

from contextlib import contextmanager

import pytest

import kernelwright as kw
from kernelwright import flow
from kernelwright.cli import main
from kernelwright.errors import InputError, NotFoundError
from kernelwright.records import Budget
from kernelwright.search import make_editors
from kernelwright.search.editing import _editing
from kernelwright.search.editing._editing import strategy_of
from kernelwright.search.recipe import load_recipe, recipe_of
from kernelwright.search.run._metadata import reproduce
from kernelwright.search.session import _choices, _packaging, _search
from kernelwright.search.strategies import Means
from kernelwright.search.tuners import DEFAULT_TUNER
from kernelwright.store import Store
from kernelwright.store._database import Database
from kernelwright.testing import PlantedJudge, PlantedLandscape, PlantedLanguage, planted_task

TASK = """
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 4, "columns": 16}])
def double(x):
    return x * 2
"""


@pytest.fixture
def world(monkeypatch, tmp_path):
    """A run with no proposers and a planted editor."""
    landscape, judge = PlantedLandscape(1), PlantedJudge()
    (tmp_path / "double.py").write_text(TASK)

    @contextmanager
    def open_judge(setting, problem, bounds):
        yield judge

    for module in (_choices, _search):
        monkeypatch.setattr(module, "get_language", lambda name: PlantedLanguage())
    monkeypatch.setattr(_editing, "make_editors", lambda names: [landscape] if names else [])
    monkeypatch.setattr(flow, "open_judge", open_judge)
    monkeypatch.setattr(_packaging, "package_accepted", lambda task, run, *rest: tmp_path)
    return landscape, tmp_path


def optimize(tmp_path, **options):
    chosen = {"languages": ("planted",), "proposers": (), "budget": Budget(evaluations=30), **options}
    return kw.optimize(tmp_path / "double.py", store=tmp_path / "store", **chosen)


def test_an_editor_alone_searches_with_the_default_strategy(world):
    landscape, tmp_path = world
    result = optimize(tmp_path, editors=("planted",), more={"edits": 2})
    assert result.decision == "improved" and result.evaluations == 30
    request_seeds = {move.operator for move in landscape.asked}
    assert "improve" in request_seeds


def test_a_search_with_editors_has_one_connection_to_its_store(world, monkeypatch):
    landscape, tmp_path = world
    opened, lent, real, edit = [], [], Database.__init__, landscape.edit
    monkeypatch.setattr(Database, "__init__", lambda own, path: opened.append(path) or real(own, path))
    monkeypatch.setattr(
        landscape, "edit", lambda move, request: lent.append(request.calls) or edit(move, request)
    )
    result = optimize(tmp_path, editors=("planted",), more={"edits": 2})
    assert result.decision == "improved" and lent and None not in lent
    assert opened == [tmp_path / "store" / "kernelwright.db"]


def test_strategy_and_its_settings_are_kept_with_the_run(world):
    landscape, tmp_path = world
    run = optimize(tmp_path, strategy="best_of", editors=("planted",), more={"strategy.n": 5}).run
    assert [m.operator for m in landscape.asked] == ["draft"] * 5
    with Store(tmp_path / "store") as store:
        options = store.run(run).options
    assert options["strategy"] == "best_of" and options["strategy.n"] == 5
    made = strategy_of("best_of", Means(), options)
    assert len([m for m in iter(made.ask, None)]) == 5


def test_a_recipe_composes_strategy_settings_and_steps_and_is_kept_with_the_run(world, monkeypatch):
    landscape, tmp_path = world
    landscape.operators = (*landscape.operators, "critique", "read-profile")
    landscape.words = lambda move, dice: {"advice": "ADVICE"}
    arguments = load_recipe("kernelagent").arguments() | {"editors": ("planted",), "proposers": ()}
    run = optimize(tmp_path, **arguments).run
    asked = [m.operator for m in landscape.asked]
    improved = [m for m in landscape.asked if m.operator == "improve"]
    assert asked.count("critique") == asked.count("read-profile") == len(improved) > 0
    assert all("Advice: ADVICE" in m.goal for m in improved)
    with Store(tmp_path / "store") as store:
        kept = store.run(run)
    assert recipe_of(kept) == load_recipe("kernelagent") and kept.options["strategy.width"] == 3
    assert "--recipe kernelagent" in reproduce(planted_task(), kept)


def test_the_command_that_repeats_a_run_names_what_was_chosen(tmp_path):
    options = {"device": "cpu", "tuner": "random", "strategy": "evolve", "strategy.islands": 4}
    with Store(tmp_path) as store:
        run = store.create_run(planted_task(), device="cpu-1", budget=Budget(), seed=7, options=options)
    words = reproduce(planted_task(), run)
    for chosen in ("--device cpu", "--tuner random", "--strategy evolve", "--set islands=4", "--seed 7"):
        assert chosen in words
    usual = run.model_copy(update={"options": {"device": "cpu", "tuner": DEFAULT_TUNER}})
    assert "--tuner" not in reproduce(planted_task(), usual)


def test_no_editor_leaves_the_search_as_it_was(world):
    landscape, tmp_path = world
    assert optimize(tmp_path).evaluations == 0 and not landscape.asked


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"strategy": "greedy"}, InputError, "--editor"),
        ({"strategy": "nosuch", "editors": ("planted",)}, NotFoundError, "'nosuch'.*evolve"),
        ({"strategy": "nosuch"}, NotFoundError, "'nosuch'.*evolve"),
    ],
)
def test_wrong_names_are_refused_before_anything_is_spent(world, options, error, message):
    landscape, tmp_path = world
    with pytest.raises(error, match=message):
        optimize(tmp_path, **options)
    assert not landscape.asked and not (tmp_path / "store").exists()


def test_an_unknown_editor_is_named():
    with pytest.raises(NotFoundError, match="'nosuch'"):
        make_editors(["nosuch"])


def test_the_command_checks_names_too(tmp_path, capsys):
    (tmp_path / "double.py").write_text(TASK)
    arguments = [
        "optimize",
        str(tmp_path / "double.py"),
        "--store",
        str(tmp_path / "store"),
        "--strategy",
        "uct",
    ]
    assert main(arguments) == 2
    assert "add --editor NAME" in capsys.readouterr().err
