"""`kernelwright simulate`: how other strategies would have done on a recorded run."""

from functools import partial

from ._common import Common, Count, print_json, table


def simulate(
    run: str,
    *,
    strategy: list[str] | None = None,
    evaluations: Count | None = None,
    seeds: Count = 20,
    common: Common | None = None,
) -> int:
    """Replay a recorded run: what strategies find among its candidates in a number of evaluations, at no cost.

    If a strategy requests an edit that the run never made, the nearest recorded one is used; `exact` is the share
    of moves answered by the identical edit. The lower it is, the less the figures mean.

    Args:
        run: The run's id, a prefix of it, or `last`; a run made with an editor.
        strategy: Strategy to replay; repeat for more. By default all.
        evaluations: Evaluations of each; by default half of what was recorded.
        seeds: Number of seeds, from 0; the figures are over all of them.
        common: Flags of every command.
    """
    from ..search.replay.recording import Recording, rehearse
    from ..search.strategies import Means, make_strategy, strategy_names
    from ..store import Store

    common = common or Common()
    names = strategy or list(strategy_names())
    for name in names:
        make_strategy(name, Means())
    with Store(common.folder) as store:
        recording = Recording.load(store, run)
    most = evaluations or max(1, len(recording.evaluations) // 2)
    rows = []
    for name in names:
        found = rehearse(recording, partial(make_strategy, name), evaluations=most, seeds=seeds)
        fraction = {"median": found.quantile(0.5), "low": found.quantile(0.1), "high": found.quantile(0.9)}
        if common.json:
            print_json(
                "strategy", strategy=name, fraction_of_best={**fraction}, exact=found.exact, usd=found.usd
            )
        rows.append(
            {
                "strategy": name,
                "fraction of best": f"{fraction['median']:.3f}",
                "10 % to 90 % of seeds": f"{fraction['low']:.3f} to {fraction['high']:.3f}",
                "exact answers": f"{found.exact:.0%}",
                "USD": f"{found.usd:.4g}",
            }
        )
    if common.json:
        print_json(
            "result", run=recording.name, strategies=list(names), evaluations=most, seeds=seeds,
            recorded=len(recording.evaluations), moves=len(recording.steps),
        )  # fmt: skip
    else:
        print(
            f"run {recording.name}: {len(recording.steps)} moves, {len(recording.evaluations)} candidates; "
            f"each strategy evaluates {most} of them, {seeds} times"
        )
        table(rows, empty="no strategy")
    return 0
