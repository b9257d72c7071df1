"""Recipes head to head, with planted entries."""

import json
from pathlib import Path

import pytest

import kernelwright.api.compare as module
from kernelwright.api.compare import compare
from kernelwright.cli import main
from kernelwright.records import Budget, Interval, Run, RunStatus
from kernelwright.report import render_comparison
from kernelwright.search import Result
from kernelwright.search.recipe import load_recipe
from kernelwright.store import Store
from kernelwright.testing import planted_task

RECIPES = [load_recipe(name) for name in ("cudaforge", "polca", "k-search")]
BUDGET = Budget(evaluations=5)


def result(run: Run, speedup: float) -> Result:
    accepted = speedup > 1
    return Result(
        run=run.id, task=run.task_name, decision="improved" if accepted else "slower", baseline="eager",
        speedup=Interval(median=speedup, low=speedup * 0.95, high=speedup * 1.05), bound_us=1.0, time_us=2.0,
        fraction_of_bound=0.5, kernel=None, evaluations=5, cached=0, failures={"build-failed": 1},
    )  # fmt: skip


@pytest.fixture
def entries(monkeypatch):
    """Every entry that was begun, and how fast each recipe is; an interrupted one stops where it is told."""
    begun, speeds, interrupt = [], {"queue": 2.0, "rounds": 0.5, "world_model": 1.5}, []

    def optimize(target, *, budget, seed, store, on_event, strategy, more, **arguments):
        begun.append((target, strategy, seed, budget, store, more))
        with Store(store) as kept:
            run = kept.create_run(planted_task(), device="cpu", budget=budget, seed=seed, options={})
            if len(begun) in interrupt:
                raise KeyboardInterrupt
            found = result(run, speeds[strategy])
            kept.finish_run(run.id, RunStatus.FINISHED, found.model_dump(mode="json"))
            return found

    def resume(run, *, store, on_event):
        with Store(store) as kept:
            record = kept.run(run)
            if record.status is RunStatus.FINISHED:
                return Result.model_validate(kept.result(run))
            resumed.append(run)
            return result(record, 1.25)

    resumed: list[str] = []
    load_task = module.load_task

    def load(target, *, max_elements):
        return planted_task() if target in {"a.py", "b.py"} else load_task(target, max_elements=max_elements)

    monkeypatch.setattr(module, "load_task", load)
    monkeypatch.setattr(module.flow, "optimize", optimize)
    monkeypatch.setattr(module.flow, "resume", resume)
    return begun, interrupt, resumed


def test_equal_budget_stores_of_their_own_and_a_rotating_order(entries, tmp_path):
    begun, _, _ = entries
    compared = compare(
        ["a.py", "b.py"], RECIPES, budget=BUDGET, store=tmp_path, more={"models": ("local:m@u",)}
    )
    assert [b[1] for b in begun] == ["rounds", "queue", "world_model", "queue", "world_model", "rounds"]
    assert {b[3] for b in begun} == {BUDGET} and len({b[4] for b in begun}) == 6
    assert all(b[5]["models"] == ("local:m@u",) and "recipe" in b[5] for b in begun)
    assert not any(b[5]["instead"] for b in begun), "nobody stands in for a model that is of no use"
    assert [(s.recipe, round(s.speedup.median, 6), s.improved) for s in compared.standings()] == [
        ("polca", 2.0, 2), ("k-search", 1.5, 2), ("cudaforge", 1.0, 0),
    ]  # fmt: skip
    assert [s.failures for s in compared.standings()] == [2, 2, 2]


def test_what_is_not_accepted_counts_as_one_and_never_less(entries, tmp_path):
    compared = compare(["a.py"], RECIPES[:1], budget=BUDGET, store=tmp_path)
    assert compared.entries[0].result.speedup.median == 0.5 and compared.entries[0].speedup.median == 1.0


def test_a_mean_comes_with_its_limits(entries, tmp_path, monkeypatch):
    polca = RECIPES[1:2]
    (one,) = compare(["a.py"], polca, budget=BUDGET, store=tmp_path).standings()
    assert (one.speedup.low, one.speedup.high) == (1.9, 2.1), "one run: those of its own measurement"
    compared = compare(["a.py"], polca, budget=BUDGET, seeds=2, store=tmp_path / "two")
    found = [
        entry.result.model_copy(update={"speedup": Interval(median=m)})
        for entry, m in zip(compared.entries, (2, 4), strict=True)
    ]
    spread = [
        entry.model_copy(update={"result": r}) for entry, r in zip(compared.entries, found, strict=True)
    ]
    (two,) = compared.model_copy(update={"entries": tuple(spread)}).standings()
    # Student's t with one degree of freedom: 12.706 times the standard error of log 2 and log 4, half of log 2.
    assert two.speedup.median == pytest.approx(8**0.5)
    assert two.speedup.high == pytest.approx(8**0.5 * 2 ** (12.7062 / 2), rel=1e-3)
    assert two.speedup.low * two.speedup.high == pytest.approx(8)


def test_flags_of_the_search_go_to_every_run_and_settings_to_their_recipe(entries, tmp_path, capsys):
    begun, _, _ = entries
    words = [
        "compare",
        "a.py",
        "--recipes",
        "polca,cudaforge",
        "--store",
        str(tmp_path),
        "--set",
        "polca.epsilon=0.3",
    ]
    more = [
        "--model",
        "local:m@http://127.0.0.1:1/v1",
        "--retries",
        "0",
        "--output-tokens",
        "900",
        "--note",
        "short rows",
    ]
    assert main([*words, *more, "--baseline", "eager", "--usd", "0.5"]) == 0
    assert all(
        (b[5]["retries"], b[5]["output_tokens"], b[5]["note"], b[3].usd) == (0, 900, "short rows", 0.5)
        for b in begun
    )
    assert [b[5].get("strategy.epsilon") for b in begun] == [0.3, None]
    assert "2.00x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nosuch.py", "--recipes", "polca"], "'nosuch.py' does not exist"),
        (["b.py", "--recipes", "polca,mine.toml"], "no strategy is called 'nosuch'"),
    ],
)
def test_every_entry_is_checked_before_the_first(entries, tmp_path, capsys, monkeypatch, words, complaint):
    monkeypatch.chdir(tmp_path)
    mine = 'title = "mine"\nsource = "me"\nmechanism = "none"\nleft_out = "all"\nstrategy = "nosuch"\n'
    (tmp_path / "mine.toml").write_text(mine)
    model = ["--model", "local:m@http://127.0.0.1:1/v1", "--store", str(tmp_path / "store")]
    assert main(["compare", "a.py", *words, *model]) == 2
    assert complaint in capsys.readouterr().err and not entries[0]


def test_an_interrupted_comparison_goes_on_where_it_stopped(entries, tmp_path):
    begun, interrupt, resumed = entries
    interrupt.append(2)
    with pytest.raises(KeyboardInterrupt):
        compare(["a.py"], RECIPES, budget=BUDGET, store=tmp_path)
    compared = compare(["a.py"], RECIPES, budget=BUDGET, store=tmp_path)
    assert len(begun) == 3 and len(resumed) == 1, "the first is taken, the second resumed, the third begun"
    assert [entry.speedup.median for entry in compared.entries] == [1.0, 1.25, 1.5]


def test_another_budget_is_another_comparison(entries, tmp_path):
    begun, _, _ = entries
    one = compare(["a.py"], RECIPES[:1], budget=BUDGET, store=tmp_path)
    other = compare(["a.py"], RECIPES[:1], budget=Budget(evaluations=6), store=tmp_path)
    assert one.id != other.id and len(begun) == 2


def test_the_report_names_every_run_and_loads_nothing(entries, tmp_path):
    compared = compare(["a.py"], RECIPES, budget=BUDGET, seeds=2, store=tmp_path)
    page = render_comparison(compared, "kernelwright compare <script>")
    assert page.count("<tr class") >= 3 and "k-search, seed 1" in page and "&lt;script&gt;" in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_the_command_prints_the_standings_and_writes_the_report(entries, tmp_path, capsys):
    words = [
        "compare",
        "a.py",
        "--recipes",
        "cudaforge,polca",
        "--evaluations",
        "5",
        "--store",
        str(tmp_path),
        "--model",
        "local:m@http://127.0.0.1:1/v1",
        "--json",
    ]
    assert main(words) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [s["recipe"] for s in line["standings"]] == ["polca", "cudaforge"]
    assert "2 recipes compared" in Path(line["report"]).read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "a.py", "--recipes", "nope"], "no recipe is called 'nope'"),
        (["compare", "--recipes", "polca"], "needs a task and a recipe"),
        (["compare", "a.py", "--recipes", "polca"], "none was named; add --model NAME"),
        (
            ["compare", "a.py", "--recipes", "polca", "--set", "epsilon=1"],
            "expected RECIPE.NAME=VALUE with one of polca",
        ),
        (["compare", "a.py", "--recipes", "polca", "--set", "polca.eps=1"], "no setting 'eps'"),
    ],
)
def test_what_is_wrong_is_one_sentence(words, message, capsys):
    assert main(words) == 2
    assert message in capsys.readouterr().err
