"""Lessons on planted runs: drawn from decisions, recalled by similarity, faded by contradiction, and audited."""

import json

import pytest

from kernelwright.cli import main
from kernelwright.errors import InputError
from kernelwright.learn import (
    Edit,
    Evidence,
    Lesson,
    Situation,
    audit,
    export_lessons,
    import_lessons,
    kept_lessons,
    learn_from,
    recall,
    similarity,
    steps_of,
)
from kernelwright.records import Bound, BoundTerm, Budget, Interval
from kernelwright.store import EvaluationKey, Store
from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate, planted_task

JUDGE, LANGUAGE = PlantedJudge(), PlantedLanguage()
HERE = Situation(
    task="one", family="softmax", operators=("softmax",), elements=1e6, dtypes=("float32",), bound_by="dram",
    device="cpu-1",
)  # fmt: skip


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def plant(store, *candidates, task="one", device="cpu-1", stage="screen"):
    """Keep a run of planted candidates, as the flow would."""
    made = planted_task(task)
    run = store.create_run(made, device=device, budget=Budget(), seed=1)
    operators = [{"name": "aten::mul", "share": 0.2}, {"name": "aten::_softmax", "share": 0.8}]
    term = BoundTerm(name="dram", amount=32.0, unit="bytes", peak=1e9, source="planted")
    bound = Bound(workload="n=4", device=device, terms=(term,))
    store.append_event(run.id, {"event": "profile", "operators": operators})
    store.append_event(run.id, {"event": "bound", "bounds": [bound.model_dump(mode="json")]})
    for candidate in candidates:
        build = LANGUAGE.build(candidate)
        evaluation = getattr(JUDGE, "accept" if stage == "full" else "screen")(candidate, build)
        key = EvaluationKey(candidate.key, made.key, device, "planted 1", "planted 1")
        store.save_evaluation(run.id, key, evaluation, elapsed_s=1.0)
    return run.id


def made(time_us, reason="", parent=None, **given):
    candidate = planted_candidate(time_us, **given)
    return candidate.model_copy(update={"reason": reason, "parents": (parent.key,) if parent else ()})


def lesson(outcome="faster", median=1.5, what="wider tiles", source="", stage="full", **where):
    return Lesson(
        situation=HERE.model_copy(update=where),
        edit=Edit(what=what, language="cpp", proposer="planted"),
        outcome=outcome,
        effect=Interval(median=median, low=median * 0.95, high=median * 1.05) if median else None,
        evidence=Evidence(run="r", child=f"c{outcome}{median}{what}{source}{where}", stage=stage),
        source=source,
    )


def keep(store, *lessons, origin="planted"):
    store.keep("lesson", origin, {one.key: one.to_json() for one in lessons})


def test_an_edit_is_worth_what_was_measured_between_parent_and_child(store):
    first = made(80.0, "plain loop")
    child = made(40.0, "two accumulators", first)
    worse = made(160.0, "one big block", first)
    run = plant(store, first, child, worse)
    start, better, slower = learn_from(store, run)
    assert (start.outcome, start.evidence.parent) == ("faster", "")
    assert (better.outcome, better.evidence.parent, better.edit.what) == (
        "faster",
        first.key,
        "two accumulators",
    )
    assert better.effect.median == pytest.approx(2.0)
    assert better.effect.low == pytest.approx(2.0 * 0.99 / 1.01, rel=1e-4)
    assert slower.outcome == "slower" and slower.effect.median == pytest.approx(0.5)
    assert (better.situation.family, better.situation.bound_by) == ("softmax", "dram")
    assert kept_lessons(store) == [start, better, slower]


def test_failures_and_repairs_teach_too(store):
    broken = made(10.0, "skip the maximum", fault="verify")
    repaired = made(50.0, "subtract the maximum", broken)
    unbuilt = made(10.0, "new syntax", repaired, fault="build")
    refused, repaired, failed = learn_from(store, plant(store, broken, repaired, unbuilt))
    assert (refused.outcome, refused.reason, refused.effect) == ("refused", "correct", None)
    assert (repaired.outcome, repaired.reason) == ("repaired", "correct")
    assert (failed.outcome, failed.reason) == ("refused", "build-failed")


def test_of_a_template_only_the_best_configuration_is_a_lesson(store):
    tiles = [
        planted_candidate(t, parameters={"tile": n}).model_copy(update={"template": "rows"})
        for n, t in ((1, 90.0), (2, 30.0), (4, 60.0))
    ]
    (only,) = learn_from(store, plant(store, *tiles))
    assert only.edit.changed == {"tile": (None, 2)} and "tile 2" in str(only)


def test_learning_again_from_a_run_changes_nothing(store):
    run = plant(store, made(50.0, "a"))
    assert learn_from(store, run) == learn_from(store, run) == tuple(kept_lessons(store))


def test_similarity_falls_with_distance():
    def near(**changes):
        return similarity(HERE, HERE.model_copy(update=changes))

    assert near() == 1.0
    assert 1 > near(elements=3e6) > near(elements=1e8) > 0
    assert 1 > near(device="cpu-2") > near(device="cuda-1")
    assert near(family="mm", operators=("softmax", "mm")) > near(family="mm", operators=("mm",))
    assert near(bound_by="launch") < 1 and near(dtypes=("bfloat16",)) < 1


def test_recall_puts_the_like_before_the_unlike(store):
    keep(store, lesson(what="far", family="conv", operators=("conv",)), lesson(what="near"))
    assert [r.lesson.edit.what for r in recall(store, HERE)] == ["near", "far"]
    assert [r.lesson.edit.what for r in recall(store, words="conv")] == ["far"]
    assert recall(store, words="nothing-of-this-kind") == []


def test_a_contradicted_lesson_fades(store):
    sure, doubted = lesson(what="sure"), lesson(what="doubted")
    against = [lesson(what="doubted", outcome="slower", median=0.7, elements=e) for e in (1e6, 2e6, 3e6)]
    keep(store, doubted, sure, *against)
    by_edit = {r.lesson.edit.what: r for r in recall(store, HERE)}
    assert next(iter(by_edit)) == "sure"
    assert by_edit["doubted"].lesson.outcome == "slower"
    assert (by_edit["doubted"].agree, by_edit["doubted"].against) == (3, 1)


def test_agreement_strengthens_and_imports_weigh_less(store):
    keep(store, lesson(what="once"), *(lesson(what="often", elements=e) for e in (1e6, 1.1e6, 1.2e6)))
    import_lessons(store, export_lessons([lesson(what="theirs")]), "theirs.jsonl")
    recalled = recall(store, HERE)
    assert [r.lesson.edit.what for r in recalled] == ["often", "once", "theirs"]
    assert recalled[2].lesson.source == "theirs.jsonl"


def test_import_marks_where_from_and_a_second_time_changes_nothing(store):
    text = export_lessons([lesson(), lesson(what="other")])
    assert import_lessons(store, text, "a.jsonl") == import_lessons(store, text, "a.jsonl")
    assert [one.source for one in kept_lessons(store)] == ["a.jsonl", "a.jsonl"]
    with pytest.raises(InputError, match=r"line 2 of b\.jsonl is no lesson"):
        import_lessons(store, text.splitlines()[0] + "\n{}\n", "b.jsonl")
    assert len(kept_lessons(store)) == 2


def test_audit_finds_what_was_changed_and_what_is_gone(store):
    run = plant(store, made(80.0, "first"), made(40.0, "second"))
    first, second = learn_from(store, run)
    forged = second.model_copy(update={"effect": Interval(median=9.0, low=8.0, high=10.0)})
    gone = first.model_copy(update={"evidence": first.evidence.model_copy(update={"run": "nosuch"})})
    keep(store, first, forged, gone, lesson(source="theirs"), origin=run)
    assert [a.finding for a in audit(store)] == ["reproduced", "differs", "no evidence", "imported"]
    assert audit(store, lambda run, evaluation: False)[0].finding == "differs"


def test_steps_keep_parents_findings_and_decisions(store):
    first = made(80.0, "first")
    steps = list(steps_of(store, plant(store, first, made(10.0, "wrong", first, fault="verify"))))
    assert [s.parents for s in steps] == [(), (first.key,)]
    assert [(s.edit, s.decision, len(s.findings)) for s in steps] == [
        ("first", "inconclusive", 0), ("wrong", "rejected", 1),
    ]  # fmt: skip
    assert steps[0].sources == first.sources and steps[0].speedup.median == 1.25


def call(capsys, *arguments):
    code = main([*map(str, arguments), "--json"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_commands_list_show_search_exchange_and_audit(store, tmp_path, capsys):
    run = plant(store, made(80.0, "plain loop"))
    (only,) = learn_from(store, run)
    here = ("--store", tmp_path)
    assert call(capsys, "lessons", "list", *here)[1][0]["key"] == only.key
    assert call(capsys, "lessons", "show", only.key[:6], *here)[1][-1]["says"] == str(only)
    found = call(capsys, "lessons", "search", "plain softmax", *here)[1]
    assert (found[0]["key"], found[-1]["found"]) == (only.key, 1)
    file, other = tmp_path / "lessons.jsonl", ("--store", tmp_path / "other")
    assert call(capsys, "lessons", "export", "--to", file, *here)[1][-1]["exported"] == 1
    assert call(capsys, "lessons", "import", file, *other)[1][-1]["imported"] == 1
    assert call(capsys, "lessons", "audit", *other) == (0, [
        {"event": "lesson", "finding": "imported", **_row(only, "lessons.jsonl")},
        {"event": "result", "lessons": 1, "imported": 1},
    ])  # fmt: skip
    steps = tmp_path / "steps.jsonl"
    assert call(capsys, "trajectories", "--to", steps, *here)[1][-1]["steps"] == 1
    assert json.loads(steps.read_text())["edit"] == "plain loop"


def _row(only, source):
    return {
        "key": only.model_copy(update={"source": source}).key, "outcome": "faster", "effect": str(only.effect),
        "where": "softmax 4 dram", "edit": "plain loop", "run": source,
    }  # fmt: skip


def test_wrong_words_are_one_sentence(tmp_path, capsys):
    assert main(["lessons", "show", "nosuch", "--store", str(tmp_path)]) == 2
    assert "no lesson is called 'nosuch'" in capsys.readouterr().err
    assert main(["lessons", "import", str(tmp_path / "nosuch"), "--store", str(tmp_path)]) == 2
    assert "expected a file of `lessons export`" in capsys.readouterr().err
