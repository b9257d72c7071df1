"""The flags of `optimize` that are about language models."""

import json

import pytest

from kernelwright import flow
from kernelwright.cli import main
from kernelwright.cli._console import result_text
from kernelwright.records import DecisionStatus
from kernelwright.search import PROPOSERS, Result

NAME = "local:m@http://127.0.0.1:1/v1"


def result(**more):
    fields = dict.fromkeys(Result.model_fields)
    known = {"run": "r", "task": "t", "decision": DecisionStatus.UNKNOWN, "evaluations": 0, "cached": 0}
    nothing = {name: () if "tuple" in str(f.annotation) else None for name, f in Result.model_fields.items()}
    return Result.model_construct(**{**fields, **nothing, **known, "failures": {}, "usd": 0.0, **more})


@pytest.fixture
def asked(any_target, monkeypatch, tmp_path):
    """What the flow is asked for by a command line."""

    def run(*flags):
        seen = {}
        monkeypatch.setattr(flow, "optimize", lambda target, **given: seen.update(given) or result())
        assert main(["optimize", "task.py", *flags, "--store", str(tmp_path)]) == 0
        return seen

    return run


def test_a_model_is_one_more_proposer_and_its_options_go_with_the_run(asked):
    seen = asked(
        "--model", NAME, "--price", "1,2", "--usd", "0.5", "--note", "think", "--requests-per-minute", "30",
        "--tokens-per-minute", "40000", "--output-tokens", "9000", "--retries", "0",
    )  # fmt: skip
    assert seen["proposers"] == (*PROPOSERS, "llm") and seen["budget"].usd == 0.5
    more = {name: seen["more"][name] for name in ("models", "prices", "note", "requests_per_minute")}
    assert more == {"models": (NAME,), "prices": ("1,2",), "note": "think", "requests_per_minute": 30.0}
    assert seen["more"]["tokens_per_minute"] == 40000.0
    assert (seen["more"]["output_tokens"], seen["more"]["retries"]) == (9000, 0)


def test_without_a_model_nobody_is_asked_and_with_an_editor_only_it(asked):
    assert tuple(asked()["proposers"]) == PROPOSERS
    assert tuple(asked("--model", NAME, "--editor", "llm")["proposers"]) == PROPOSERS


@pytest.mark.parametrize(
    ("flags", "said", "code"),
    [
        (["--model", "gpt-5"], "expected PROVIDER:MODEL", 2),
        (["--model", "nosuch:m"], "no provider is called", 2),
        (["--model", NAME, "--price", "1,2"], "--usd", 2),
        (["--model", "openai:gpt-5", "--usd", "1"], "OPENAI_API_KEY", 4),
        (["--model", NAME, "--price", "cheap", "--usd", "1"], "expected IN,OUT", 2),
    ],
)
def test_what_must_be_repaired_is_said_before_anything_is_done(
    tmp_path, monkeypatch, capsys, flags, said, code
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    store = tmp_path / "store"
    assert main(["optimize", "examples/swiglu.py", *flags, "--store", str(store), "--json"]) == code
    out, err = capsys.readouterr()
    assert said in err and err.count("\n") == 1 and not store.exists()
    assert json.loads(out.splitlines()[-1])["exit_code"] == code


def test_people_are_told_why_nothing_came_of_it_and_what_to_do():
    told = result_text(result(reason="nothing was evaluated: library had nothing"))
    assert "nothing was evaluated: library had nothing" in told and "--model NAME" in told
    assert "why" not in result_text(result(reason="", kernel="k")) and "--minutes" in result_text(
        result(evaluations=1)
    )


def test_people_are_told_of_a_baseline_that_is_no_choice_for_all():
    assert "note    no choice" in result_text(result(caveat="no choice here", reason=""))
    assert "note" not in result_text(result(caveat="no choice", reason="equal; no choice")), "told once"


def test_people_are_told_what_was_spent():
    assert "0.0120 USD on models" in result_text(result(usd=0.012)) and "USD" not in result_text(result())


def test_a_kernel_that_is_accepted_but_has_no_package_is_no_failure():
    """That of a backward task."""
    told = result_text(result(decision=DecisionStatus.IMPROVED, reason=""))
    assert "t: improved" in told and "nothing better" not in told and "accepted, but not packaged" in told
