"""`kernelwright show`: one run with its decision and candidates."""

import json
from typing import TYPE_CHECKING

from pydantic import JsonValue

from ..records import Evaluation
from ..store import Calls, Store
from ._common import Common, print_json, speedup_text, table, time_text

if TYPE_CHECKING:
    from collections.abc import Mapping


def show(
    run: str,
    *,
    top: int = 20,
    sources: bool = False,
    transcript: bool = False,
    common: Common | None = None,
) -> int:
    """Show one run: its decision and its candidates, best first.

    Args:
        run: The run's id, a prefix of it, or `last`.
        top: How many candidates to show.
        sources: Print the best candidate's source as well.
        transcript: Also print all requests to models and agents in it, and their answers.
        common: Flags of every command.
    """
    common = common or Common()
    with Store(common.folder) as store:
        record = store.run(run)
        evaluations = sorted(store.evaluations(record.id), key=_median, reverse=True)
        result, (status, reason) = store.result(record.id), store.ending(record)
    with Calls(common.folder) as calls:
        said = calls.transcript(record.id) if transcript else []
    if common.json:
        for evaluation in evaluations:
            print_json("evaluation", **evaluation.model_dump(mode="json", exclude={"timing"}))
        for call in said:
            print_json("call", **call)
        print_json(
            "result",
            **{**record.model_dump(mode="json"), "status": status, "reason": reason, "result": result},
        )
        return 0
    print(f"run {record.id}: {record.task_name} on {record.device}, seed {record.seed}, {status}")
    if reason:
        print(f"ended because {reason}")
    if result is not None:
        print(f"decision {result['decision']}, kernel {result.get('kernel') or 'none'}")
    table([_row(e) for e in evaluations[:top]], empty="no candidate was evaluated")
    if len(evaluations) > top:
        print(f"and {len(evaluations) - top} more; --top {len(evaluations)} shows all")
    if sources and evaluations:
        for file in evaluations[0].candidate.sources:
            print(f"\n--- {file.path}\n{file.text}")
    for call in said:
        asked, answer = _words(call["request"]), _words(call["reply"]) or "(no answer)"
        print(f"\n=== {call['who']}, {call['purpose']}: asked\n{asked}\n=== answered\n{answer}")
    return 0


def _words(said: JsonValue) -> str:
    """Return the text of a request or an answer: a model's is in JSON together with figures."""
    try:
        held = json.loads(str(said or ""))
    except ValueError:
        return str(said or "")
    if isinstance(held, dict) and "text" in held:
        return str(held["text"])
    if isinstance(held, list):
        return "\n".join(str(turn["text"]) for turn in held)
    return str(said)


def _median(evaluation: Evaluation) -> float:
    speedup = evaluation.decision.speedup
    return speedup.median if speedup else 0.0


def _row(evaluation: Evaluation) -> "Mapping[str, str]":
    candidate, decision = evaluation.candidate, evaluation.decision
    return {
        "candidate": candidate.key,
        "language": candidate.language,
        "from": candidate.template or candidate.proposer,
        "parameters": " ".join(f"{k}={v}" for k, v in candidate.parameters.items()),
        "stage": evaluation.stage,
        "decision": decision.status,
        "speedup": speedup_text(decision.speedup.model_dump()) if decision.speedup else "",
        "time": time_text(decision.time_us),
        "modelled": "; ".join(f"{m.low_us:.3g} to {m.high_us:.3g} us" for m in evaluation.modelled),
        "reason": decision.reason,
    }
