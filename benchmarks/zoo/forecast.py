"""The forecast of what one program saves against what was measured, replayed without searching anything again.

    python -m benchmarks.zoo.forecast ROWS.jsonl ... [--gaps GAPS.jsonl] [--only vision,llama]
    python -m benchmarks.zoo.forecast ROWS.jsonl ... --look LOOKS.jsonl
    python -m benchmarks.zoo.forecast ROWS.jsonl ... --pilots

With LOOKS, those of `python -m benchmarks.zoo.look`, in which the first programs are timed, the forecast after a pilot is
replayed: a program's share of eager torch's time by the pilot's, each model from the others (least absolute deviations).
With --pilots, today's forecast is made of the rows' own pilots, and told is how far the runs of one model lie apart, too.
Otherwise the plan's is:
ROWS are those of `python -m benchmarks.zoo`. The share of a model's time that torch keeps is measured again, once for
each model, and kept in GAPS; time and bound are the row's own. Told are the errors of today's forecast, those of one whose
share was found from the other models (leave one out), and how many models ended within the interval.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.zoo.__main__ import HERE, models
from kernelwright.models._capture import capture_model
from kernelwright.models._clock import HostClock
from kernelwright.models._native import native_us
from kernelwright.models._pilot import SLOW, forecast_of
from kernelwright.models._plan import WHOLE_CLOSED
from kernelwright.models._target import load_model
from kernelwright.models._timing import timed
from kernelwright.tasks import one_thread

Row = dict[str, Any]
FloatArray = NDArray[np.float64]


def main(argv: Sequence[str] | None = None) -> int:
    """Replay the forecast, and print what it comes to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--gaps", type=Path)
    parser.add_argument(
        "--look", type=Path, help="rows of benchmarks.zoo.look: replay the forecast after a pilot"
    )
    parser.add_argument("--pilots", action="store_true", help="forecasts of the rows' own pilots")
    parser.add_argument("--only", default="", help="categories and models, by comma")
    asked = parser.parse_args(argv)
    wanted = set(filter(None, asked.only.split(",")))
    rows = [row for path in asked.rows for row in _read(path)]
    if asked.look is not None:
        print(piloted(rows, _read(asked.look)))
        return 0
    if asked.pilots:
        print(by_pilots(rows))
        return 0
    judged = {row["model"]: row for row in rows if row.get("eager_speedup") and row.get("bound_us")}
    kept = {row["model"]: row["native_share"] for row in _read(asked.gaps)}
    found = []
    for category, name in models():
        if name not in judged or (wanted and not wanted & {category, name}):
            continue
        if name not in kept:
            kept[name] = native_share(f"{HERE / category}.py:{name}")
            if asked.gaps is not None:
                with asked.gaps.open("a") as file:
                    file.write(json.dumps({"model": name, "native_share": kept[name]}) + "\n")
        row = judged[name]
        reach_us = (
            row.get("reach_us") or row["bound_us"]
        )  # rows of a machine on which they are almost the same
        gap = max(1 - reach_us / row["time_us"] - kept[name], 0.0)
        found.append({"model": name, "gap": gap, "saved": 1 - 1 / row["eager_speedup"]})
    print("\n".join(told(found)))
    return 0


def native_share(target: str) -> float:
    """Return the part of a model's time that torch keeps, in processor time of one thread."""
    loaded = load_model(target)
    captured = capture_model(loaded)
    with one_thread():
        times = {p.name: timed(p, loaded.whole, clock=HostClock(time.thread_time)) for p in captured.pieces}
    whole_us = next(iter(times.values())).whole_us
    return min(1.0, native_us(captured, times) / whole_us)


def told(found: Sequence[Row]) -> list[str]:
    """Return a line for each model, and what the errors come to, in points of a hundred.

    Example:
        >>> rows = [{"model": "a", "gap": 0.5, "saved": 0.4}, {"model": "b", "gap": 0.5, "saved": 0.5}]
        >>> told(rows)[-1]
        'forecast off by 5.0 points in the median, 5.0 in the mean; 1 of 2 within the interval; by the others 10.0, 10.0'
    """
    low, share, high = WHOLE_CLOSED
    lines, errors, others = [], [], []
    for at, row in enumerate(found):
        rest = [r["saved"] / r["gap"] for i, r in enumerate(found) if i != at and r["gap"]]
        errors.append(abs(share * row["gap"] - row["saved"]))
        others.append(abs(median(rest) * row["gap"] - row["saved"]) if rest else 0.0)
        lines.append(f"{row['model']}: {share * row['gap']:.2f} saved expected, {row['saved']:.2f} measured")
    within = sum(low * r["gap"] <= r["saved"] <= high * r["gap"] for r in found)
    lines.append(
        f"forecast off by {_points(errors)[0]:.1f} points in the median, {_points(errors)[1]:.1f} in the mean; "
        f"{within} of {len(found)} within the interval; by the others {_points(others)[0]:.1f}, {_points(others)[1]:.1f}"
    )
    return lines


def piloted(rows: Sequence[Row], looks: Sequence[Row]) -> str:
    """Return what the errors of forecasts after a pilot come to; the last row of a model counts.

    Left out are `dlrm`, which was looked at with other programs, and `llama_decode`, which was improved by its regions.
    """
    judged = {r["model"]: r for r in rows if r.get("decision") == "improved" and r.get("eager_speedup")}
    timed_us = {r["model"]: r["times_us"] for r in looks if r.get("times_us")}
    names = [n for n in judged if n in timed_us and n not in ("dlrm", "llama_decode")]
    shares = [_share(timed_us[n]) for n in names]
    inputs = np.array([[share, share * min(share, SLOW)] for share in shares])
    measured = np.array([1 / judged[n]["eager_speedup"] for n in names])
    rest = [np.arange(len(names)) != at for at in range(len(names))]
    off = [
        float(one @ fitted(inputs[k], measured[k]) - m)
        for one, m, k in zip(inputs, measured, rest, strict=True)
    ]
    median_, mean = _points([abs(one) for one in off])
    raw = _points([abs(one - m) for one, m in zip(shares, measured, strict=True)])[0]
    return (
        f"after a pilot, {len(names)} models: off by {median_:.1f} points in the median, {mean:.1f} in the mean, a tenth by "
        f"more than {100 * np.quantile(off, 0.1):.1f} and {100 * np.quantile(off, 0.9):.1f}; the pilot as it is {raw:.1f}; "
        f"from all {', '.join(f'{c:.3f}' for c in fitted(inputs, measured))}"
    )


def by_pilots(rows: Sequence[Row]) -> str:
    """Return how far today's forecasts of pilots are off, and what the verdicts themselves leave open, in points.

    A verdict's interval is that of its speedup, taken over to the time of eager torch. Told are how many forecasts lie
    in it, half its width in the median, how far the pilot as it is would be off, and what a ratio to the pilot that is
    found from all other models (least absolute deviations) would be off.

    Example:
        >>> ends = {"median": 1.0, "low": 0.9, "high": 1.1}
        >>> rows = [{"model": "a", "pilot": 0.5, "eager_speedup": times, "speedup": ends} for times in (2.0, 2.5)]
        >>> print(by_pilots(rows))
        2 runs with a pilot: off by 8.2 points in the median, from +3.2 to +13.2; the pilot as it is 5.0
        the verdicts' intervals are 4.5 points to each side in the median; 1 of 2 forecasts lie in them
        judged more than once, apart by: a 10.0
    """
    judged: dict[str, list[float]] = {}
    for row in rows:
        if row.get("eager_speedup"):
            judged.setdefault(row["model"], []).append(1 / row["eager_speedup"])
    seen = [row for row in rows if row.get("pilot") and row.get("eager_speedup") and row.get("speedup")]
    forecasts = [1 / forecast_of(row["pilot"])[1] for row in seen]
    off = [forecast - 1 / row["eager_speedup"] for forecast, row in zip(forecasts, seen, strict=True)]
    raw = [abs(row["pilot"] - 1 / row["eager_speedup"]) for row in seen]
    ends = [_share_within(row) for row in seen]
    within = sum(low <= one <= high for one, (low, high) in zip(forecasts, ends, strict=True))
    apart = [f"{n} {100 * (max(s) - min(s)):.1f}" for n, s in judged.items() if len(s) > 1]
    return (
        f"{len(seen)} runs with a pilot: off by {_points([abs(one) for one in off])[0]:.1f} points in the median, "
        f"from {100 * min(off):+.1f} to {100 * max(off):+.1f}; the pilot as it is {_points(raw)[0]:.1f}{_by_others(seen)}\n"
        f"the verdicts' intervals are {_points([(high - low) / 2 for low, high in ends])[0]:.1f} points to each side "
        f"in the median; {within} of {len(seen)} forecasts lie in them\n"
        f"judged more than once, apart by: {', '.join(apart)}"
    )


def _share_within(row: Row) -> tuple[float, float]:
    """Return the ends of a verdict's interval as parts of eager torch's time."""
    ends, share = row["speedup"], 1 / row["eager_speedup"]
    return share * ends["median"] / ends["high"], share * ends["median"] / ends["low"]


def _by_others(rows: Sequence[Row]) -> str:
    """Say how far one ratio to the pilot is off that was found from all other models; nothing for one model alone."""
    if len({row["model"] for row in rows}) < 2:
        return ""
    errors = []
    for row in rows:
        rest = [r for r in rows if r["model"] != row["model"]]
        ratio = fitted(
            np.array([[r["pilot"]] for r in rest]), np.array([1 / r["eager_speedup"] for r in rest])
        )
        errors.append(abs(float(ratio[0]) * row["pilot"] - 1 / row["eager_speedup"]))
    return f", by the others' ratio {_points(errors)[0]:.1f}"


def fitted(inputs: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the coefficients of least absolute deviations, by least squares whose weights are adapted.

    Example:
        >>> inputs, wanted = np.array([[1.0, x] for x in range(6)]), np.array([1.0, 3.0, 50.0, 7.0, 9.0, 11.0])
        >>> fitted(inputs, wanted).round(1)
        array([1., 2.])
    """
    weights, found = np.ones(len(wanted)), np.zeros(inputs.shape[1])
    for _ in range(60):
        root = np.sqrt(weights)
        found = np.linalg.lstsq(inputs * root[:, None], wanted * root, rcond=None)[0]
        weights = 1 / np.maximum(np.abs(wanted - inputs @ found), 0.005)
    return found


def _share(times_us: dict[str, float]) -> float:
    """Return the part of eager torch's time that the fastest program, or torch.compile, takes."""
    programs = [us for name, us in times_us.items() if name.startswith("schedule/")]
    return min(*programs, times_us["eager"], times_us["compile"]) / times_us["eager"]


def _points(errors: Sequence[float]) -> tuple[float, float]:
    return 100 * median(errors), 100 * sum(errors) / len(errors)


def _read(path: Path | None) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.is_file() else []


if __name__ == "__main__":
    raise SystemExit(main())
