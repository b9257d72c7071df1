"""`kernelwright optimize`: the main command."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ._agents import Agents
from ._asking import Asking
from ._clustered import Clustered
from ._common import Calls, Common, Count, Positive, Taken
from ._model import is_model_target, model, only_for_models, only_for_ops

if TYPE_CHECKING:
    from .. import flow


def optimize(
    target: str,
    *,
    language: list[str] | None = None,
    proposer: list[str] | None = None,
    device: str | None = None,
    evaluations: Count | None = None,
    minutes: Positive | None = None,
    search_minutes: Positive | None = None,
    device_seconds: Positive | None = None,
    seed: int = 0,
    baseline: list[str] | None = None,
    tuner: str | None = None,
    strategy: str = "",
    settings: Annotated[list[str] | None, Parameter(name="--set")] = None,
    editor: list[str] | None = None,
    recipe: str | None = None,
    learn: Annotated[bool, Parameter(negative="--no-learn")] = True,
    counters: Annotated[bool | None, Parameter(negative="--no-counters")] = None,
    calls: Calls | None = None,
    taken: Taken | None = None,
    asking: Asking | None = None,
    agents: Agents | None = None,
    whole: bool = False,
    training: bool = False,
    optimizer: str | None = None,
    workload: list[str] | None = None,
    clustered: Clustered | None = None,
    common: Common | None = None,
) -> int:
    """Search for a faster kernel, verify it, and package it.

    A whole model (`file.py:build`, a `.pt2` archive, `hf:NAME`) is planned first, its regions are searched, and the
    patched model is judged from end to end, within ten minutes unless `--minutes` says otherwise.

    Ends with `improved` and a packaged kernel, or with "nothing better found"; both are a success. Without a
    budget it tries 40 candidates or searches for a minute, whichever ends first, and stops after 3 minutes.

    Args:
        target: `file.py` or `file.py:symbol`, a definition's JSON file, or a folder.
        language: Language to write kernels in; repeat for more. By default all that are available; OpenCL only
            if nothing else compiles.
        proposer: Proposer of kernels: `start`, `library`, `schedule`, `inductor`, `llm`; repeat for more. By default
            all, `llm` only if a model is named.
        device: `cpu`, `cuda` or `cuda:N`. By default the first GPU, else the CPU; a whole model, the CPU.
        evaluations: Stop after this many candidates; known ones are not counted.
        minutes: Stop after this long; a part is reserved for the final acceptance.
        search_minutes: Try no more candidates after searching for this long; acceptance follows within the other
            limits.
        device_seconds: Stop after holding the device for this long.
        seed: Seed of the search. The judge's seeds are secret.
        baseline: Native form to beat: `eager`, `compile`, `compile-max-autotune`, `start`; repeat for more. By
            default `eager` and `compile`, and the existing kernel if there is one; the fastest counts.
            `compile-freezing`, `compile-max-autotune-freezing`, `openvino` and `onnxruntime` (extras of these
            names) fold the weights into the code, so they are not an option if weights change; they need
            another baseline in addition.
        tuner: Explores templates: `gp` by default; `kernelwright tune --help` lists them all.
        strategy: Decides which edit to request next, if there are editors: `evolve` by default; `kernelwright
            strategies` lists them all.
        settings: `NAME=VALUE` of the strategy's own settings, such as `--set islands=4`; repeat for more. `kernelwright
            strategies NAME` explains them.
        editor: Editor of candidates: a model or an agent; repeat for more. By default none.
        recipe: Strategy, roles, prompts and initial proposers, composed to follow a published system; `kernelwright
            recipes` lists them. Other flags take precedence.
        learn: First try what did well in earlier runs of this store; `--no-learn` ignores them.
        counters: Profile each candidate that is the best so far with the available profilers (`kernelwright doctor`),
            which takes seconds each. By default only if a model or an agent reads the counters.
        calls: What a candidate may call: `custom-only`, only its own kernels; `library-allowed`, also torch's
            calls of vendor libraries (products, convolutions, ...); `anything`. By default the task's setting,
            `anything` unless it sets another.
        taken: How the task is loaded.
        asking: Which language models, and within which limits.
        agents: Which coding agent, and within which limits.
        whole: Take a file of the KernelBench form as a whole model instead of one op.
        training: Make a model's training faster: forward and backward as one program. Its result is the loss,
            or has it as `.loss` or first.
        optimizer: With `--training`, judge whole steps with this optimizer, too: `adamw` or `adafactor`, patched to
            move all parameters by one kernel.
        workload: Sizes at which a whole model is called, and the share of its calls, such as `batch=1,seq=1:80`; repeat
            for more. The function that builds the model takes the sizes by name. It is decided by the time of all
            calls together.
        clustered: On which machines candidates are evaluated.
        common: Flags of every command.
    """
    begun = time.monotonic()
    from .. import flow
    from ..records import Budget
    from ..search import DEFAULT_TUNER, PROPOSERS
    from ..search.recipe import load_recipe
    from ._console import reporting, result_text

    common, taken = common or Common(), taken or Taken()
    asking, agents = asking or Asking(), agents or Agents()
    if is_model_target(target, whole=whole, training=training):
        only_for_ops({
            "--evaluations": evaluations, "--search-minutes": search_minutes, "--device-seconds": device_seconds,
            "--seed": seed, "--tuner": tuner, "--strategy": strategy, "--set": settings, "--editor": editor,
            "--recipe": recipe, "--no-learn": not learn, "--counters": counters, "--calls": calls,
            "--model and what goes with it": asking != Asking(), "how an agent works": agents != Agents(),
            "how a task is loaded": replace(taken, numerics=None) != Taken(), "--cluster": clustered,
        })  # fmt: skip
        return model(
            target, minutes=minutes, device=device, baselines=baseline, proposers=proposer, languages=language,
            numerics=taken.numerics, training=training, optimizer=optimizer, workloads=workload or (), common=common,
        )  # fmt: skip
    only_for_models({"--workload": workload, "--optimizer": optimizer})
    budget = Budget(
        evaluations=evaluations, minutes=minutes, search_minutes=search_minutes, device_seconds=device_seconds,
        usd=asking.usd,
    )  # fmt: skip
    if budget == Budget():
        budget = flow.DEFAULT_BUDGET
    composed = load_recipe(recipe).arguments() if recipe else {}
    editors = editor or composed.get("editors", ())
    follows = strategy or composed.get("strategy", "")
    usual = PROPOSERS if editors or not asking.model else (*PROPOSERS, "llm")
    begins = composed.get("proposers", usual) if asking.model else usual
    clustered = clustered or Clustered()
    with clustered.opened(device, common) as cluster, reporting(common, budget) as on_event:
        result = flow.optimize(
            taken.task(target, calls=calls, minutes=budget.minutes),
            budget=budget,
            languages=language or (),
            proposers=tuple(dict.fromkeys((*(proposer or begins), *agents.proposers(editors)))),
            device=device,
            baselines=baseline or (),
            seed=seed,
            tuner=tuner or DEFAULT_TUNER,
            strategy=follows,
            editors=editors,
            learn=learn,
            more=_of_strategy(composed, follows, editors, settings or ())
            | asking.options
            | agents.options
            | taken.options
            | ({} if counters is None else {"counters": counters}),
            max_elements=taken.max_elements,
            store=common.folder,
            on_event=on_event,
            begun=begun,
            cluster=cluster,
        )
    print(result.line() if common.json else result_text(result, common.again), flush=True)
    return 0


def _of_strategy(
    composed: Mapping[str, Any], strategy: str, editors: Sequence[str], words: Sequence[str]
) -> "flow.Options":
    """Collect a recipe's options and the strategy's settings; a recipe's settings apply only to its own strategy."""
    from ..errors import InputError
    from ..search.recipe import SETTING
    from ..search.strategies import DEFAULT_STRATEGY, settings_in

    if words and not editors:
        raise InputError(
            "--set is of the strategy, which needs an editor; add --editor NAME or --recipe NAME"
        )
    own = strategy == composed.get("strategy")
    options = {k: v for k, v in composed.get("more", {}).items() if own or not k.startswith(SETTING)}
    given = settings_in(strategy or DEFAULT_STRATEGY, words) if words else {}
    return options | {f"{SETTING}{name}": value for name, value in given.items()}
