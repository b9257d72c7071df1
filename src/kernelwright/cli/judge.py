"""`kernelwright judge`: verifies and times candidates for a task."""

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from pydantic import Field, ValidationError

from ..errors import InputError, MissingToolError
from ..records import Record, Task
from ..store import Store
from ._common import Calls, Common, Taken, print_json, speedup_text
from ._executed import told_executed

if TYPE_CHECKING:
    from ..api.judge import Ask
    from ..search import Judgement

_EXIT = {"accepted": 0, "rejected": 1, "unknown": 3}
_ON_INPUT = "-"


class _Asked(Record):
    """One line on standard input."""

    candidate: str = Field(min_length=1)
    screen: bool = False
    verbose: bool = False


def judge(
    task: str,
    candidate: Annotated[str, Parameter(allow_leading_hyphen=True)],
    *,
    screen: bool = False,
    language: str = "",
    run: str = "",
    device: str | None = None,
    baseline: list[str] | None = None,
    calls: Calls | None = None,
    verbose: bool = False,
    taken: Taken | None = None,
    common: Common | None = None,
) -> int:
    """Verify and measure a candidate against a task.

    Exit code 0: the candidate is correct and does not cheat; 1: it is rejected; 3: a check could not run. Whether
    it is faster is the decision, which does not change the exit code.

    Args:
        task: The task, as for `optimize`, or `run:RUN` for the task of an earlier run.
        candidate: Source file, `file:symbol`, a solution's JSON file, a folder, an exported package, or `run:RUN` for
            what a run found (`run:RUN:KEY` for one of its candidates). With `-` candidates are read
            from standard input, one line of JSON each, `{"candidate": PATH, "screen": true}`, and each is answered
            by a line of JSON, in full with `"verbose": true`; the judge stays warm between them.
        screen: Only verify and time it on the search workloads, as a search does to rank it; quick, but never
            enough to accept.
        language: Language it is written in, if the suffix does not determine it.
        run: Judge it in this earlier run of `judge`, so that the decision corrects for the number tried.
        device: `cpu`, `cuda` or `cuda:N`. By default the first GPU, else the CPU.
        baseline: Native form to measure against, as for `optimize`.
        calls: What the candidate may call: `custom-only`, only its own kernels; `library-allowed`, also torch's
            calls of vendor libraries (products, convolutions, ...); `anything`. By default the task's setting,
            `anything` unless it sets another.
        verbose: Show everything: every check that passed, all figures in full, empty fields. By default only what
            failed, could not run or is useful.
        taken: How the task is loaded.
        common: Flags of every command.
    """
    from ..api.warmed import warmed
    from ..records import Budget
    from ._console import reporting

    common, taken = common or Common(), taken or Taken()
    known = language or ("cuda" if candidate.endswith(".cu") else "")
    with warmed(known, candidate) as zygotes, reporting(common, Budget(), resumes=False) as on_event:
        from ..api.judge import given, judging
        from ..api.judge import judge as judge_once

        target = taken.task(_target(task, common), calls=calls)
        if candidate == _ON_INPUT:
            with judging(
                target, device=device, baselines=baseline or (), max_elements=taken.max_elements, run=run,
                store=common.folder, on_event=on_event, zygotes=zygotes,
            ) as ask:  # fmt: skip
                return _serve(ask, verbose=verbose)
        with Store(common.folder) as store:
            one = given(candidate, target, store, language)
        judgement = judge_once(
            target, one, screen=screen, device=device, baselines=baseline or (),
            max_elements=taken.max_elements, run=run, store=common.folder, on_event=on_event, zygotes=zygotes,
        )  # fmt: skip
    if common.json:
        print(judgement.line(verbose=verbose), flush=True)
    else:
        source = shlex.join([task, candidate])
        last = told_executed(judgement, target, source, one.language, common.again)
        _print(judgement, last, verbose=verbose)
    return _EXIT[judgement.verdict]


def _target(task: str, common: Common) -> "str | Task":
    """Return what the task argument refers to: a path, or the task of a run in the store."""
    from ..api.judge import OF_RUN

    if not task.startswith(OF_RUN):
        return task
    with Store(common.folder) as store:
        return store.task(store.run(task.removeprefix(OF_RUN)).task)


def _serve(ask: "Ask", *, verbose: bool) -> int:
    """Answer every line of standard input with one line; an error in one does not affect the others."""
    print_json("ready")
    for line in sys.stdin:
        try:
            asked = _Asked.model_validate_json(line)
            judgement = ask(asked.candidate, asked.screen)
            print(judgement.line(verbose=verbose or asked.verbose), flush=True)
        except ValidationError:
            print_json(
                "error",
                message=f'{line.strip()!r} is no request; expected {{"candidate": PATH, "screen": true}}',
            )
        except (InputError, MissingToolError) as error:
            print_json("error", message=" ".join(str(error).split()))
    return 0


def _print(judgement: "Judgement", last: str, *, verbose: bool) -> None:
    findings = judgement.findings
    passed = sum(finding.status == "pass" for finding in findings)
    print(f"{passed} of {len(findings)} checks passed")
    for finding in findings:
        if verbose or finding.status != "pass" or finding.message:
            print(f"{finding.status:8} {finding.check} {finding.message}".rstrip())
    said = " ".join(finding.message for finding in findings)
    if judgement.diagnostics.strip() not in said:
        print(judgement.diagnostics, file=sys.stderr)
    if judgement.declined:
        print(f"declined {', '.join(judgement.declined)}: the native op would run there")
    speedup = judgement.speedup.model_dump() if judgement.speedup else None
    came_to = dict.fromkeys((str(judgement.verdict), str(judgement.decision)))
    print(last or f"{'; '.join(came_to)}, {speedup_text(speedup)}", flush=True)
