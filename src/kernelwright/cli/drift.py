"""`kernelwright drift`: is a changed model still the native one?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..store import Store
from ._common import Common, Count, print_json, table

if TYPE_CHECKING:
    from ..models.drift import Drift

_EXIT = {"same": 0, "drifted": 1, "inconclusive": 3}


def drift(
    native: str,
    changed: str,
    *,
    requests: Path | None = None,
    lengths: Annotated[tuple[Count, ...], Parameter(consume_multiple=True)] = (),
    steps: Count | None = None,
    draws: Count = 12,
    seed: int = 0,
    run: str | None = None,
    common: Common | None = None,
) -> int:
    """Compare a changed language model with its native form as deployed: alone, through the cache, in a batch.

    Exit code 0: the same but for rounding; 1: it drifted; 3: nothing is concluded.

    Args:
        native: `file.py:symbol`, a function that returns the native model, its `Deployment`, or `(model, inputs)`; by
            default `build`.
        changed: The same for the changed model.
        requests: JSON file with a list of lists of tokens to serve. By default the native model writes them.
        lengths: Lengths of the requests that it writes; nothing is said of longer ones.
        steps: Tokens at the end of each request that are decoded one by one through the cache, 8 by default.
        draws: Honest reorderings of the native model, from which the limits are taken.
        seed: Seed of requests and reorderings.
        run: The run in which the changed model was judged: what is found is kept with it, and its report shows it.
        common: Flags of every command.
    """
    from ..errors import InputError
    from ..models import MODEL_DRIFT, keep_metadata
    from ..models.drift import LENGTHS, STEPS, load_deployment, load_requests
    from ..models.drift import drift as drift_of

    common = common or Common()
    if draws < 4:
        raise InputError(f"--draws is {draws}; expected at least 4, a limit of fewer would be none")
    if any(length < 2 for length in lengths):
        raise InputError(f"--lengths are {lengths}; expected numbers of at least 2")
    sides = load_deployment(native), load_deployment(changed)
    origin = _origin(run, common) if run else ""
    served = load_requests(requests, steps or STEPS) if requests else None
    found = drift_of(*sides, served, lengths=lengths or LENGTHS, steps=steps or STEPS, draws=draws, seed=seed)
    if origin:
        with Store(common.folder) as store:
            keep_metadata(store, MODEL_DRIFT, origin, found)
    if common.json:
        print_json("result", **found.model_dump(mode="json"))
    else:
        _print(found)
    return _EXIT[found.outcome]


def _origin(run: str, common: Common) -> str:
    """Return what names a model in the store by the run in which it was judged.

    Raises:
        InputError: no model was judged in that run.
    """
    from ..models import model_result

    return model_result(run, common.folder).origin


def _print(found: "Drift") -> None:
    print(f"{found.outcome}: {found.reason}")
    rows = [
        {
            "served": one.scene,
            "overall": f"{one.overall:.3g}",
            "natively": f"{one.native:.3g}",
            "largest": f"{one.largest:.3g}",
            "of the limit": f"{one.excess:.3g}",
            "from position": "none" if one.first < 0 else str(one.first),
            "to the bit again": "yes" if one.deterministic else "no",
            **({} if one.kernel_calls is None else {"by kernels": f"{one.kernel_calls} calls"}),
        }
        for one in found.scenes
    ]
    table(rows, empty="nothing was served")
    if found.agreement:
        near = found.agreement
        print(
            f"next token: KL {near.kl:.2g} nats (natively {near.native_kl:.2g}), the same first {near.first:.1%}, "
            f"{near.flips} beyond noise; five first {near.five:.1%}, rank correlation {near.rank:.6f}"
        )
    if found.perplexity:
        paired = found.perplexity
        print(
            f"loss {paired.native:.4f} natively, {paired.changed:.4f} changed: {paired.difference:+.2g} nats a token "
            f"({paired.low:+.2g} to {paired.high:+.2g} at 95 %, {paired.items} requests)"
        )
    if found.generation:
        text = found.generation
        print(
            f"greedy text: {text.same} of {text.prompts} the same over {text.tokens} tokens; "
            f"sampled by the same random numbers: {text.sampled}"
        )
    if found.sampler:
        drawn = found.sampler
        print(f"sampler: p {drawn.p_value:.2g} over {drawn.contexts} contexts of {drawn.draws} draws")
    rows = [
        {"layer": one.path, "error natively": f"{one.native:.2e}", "changed": f"{one.changed:.2e}"}
        for one in found.layers
    ]
    if rows:
        table(rows, empty="")
