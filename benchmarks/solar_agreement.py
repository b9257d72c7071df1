"""Our bounds against SOLAR's, of the same problems and on the same device.

    python -m benchmarks.solar_agreement --solar DIR --data KERNELBENCH [--only level1] [--sample COUNT --seed SEED]
                                         [--max-elements N] [--out rows.jsonl]

SOLAR (NVlabs/SOLAR) computes the least time of SOL-ExecBench's scores. DIR is its checkout; the torchview that its
`install.sh` patches is on the PYTHONPATH. Each of KernelBench's problems is shrunk, and both are given that text.
SOLAR's time is that of a single roofline for the whole graph, everything overlapping, in float32, on the H100 of its
own configuration; ours is the greatest of bytes, products and other operations, over the peaks of that configuration.

SOLAR counts every product as it stands, and every argument whole, at four bytes an element; our bound counts what the
fastest known algorithm leaves, and what a kernel has to read. A row has ours; `products_stand`, ours with products as
they stand; and `as_solar_counts`, ours with whole arguments as well. `rules` are the savings of our bound on this
problem, each with its multiply-adds before and after, and `bytes_whole` is what the arguments hold at four bytes an
element. `why` names the rules that part the two where they are further apart than 10 %; a difference that no rule
explains, or that stays where we count as SOLAR does, has no reason, and the exit code is 1.
"""

import argparse
import contextlib
import io
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.bound import products_by_definition, savings, traffic, work
from kernelwright.errors import KernelwrightError
from kernelwright.records import Split
from kernelwright.suites import get_suite, setup
from kernelwright.suites._modules import reference_text
from kernelwright.tasks import Problem
from kernelwright.tasks.capture import Graph, recorded

_DEVICE = "H100_PCIe"
_WITHIN = 0.1
KINDS = ("ours", "products_stand", "as_solar_counts")
"""Ways of counting."""


def solars(text: str, folder: Path) -> dict[str, Any]:
    """Return SOLAR's figures of a model's file: milliseconds, bytes and multiply-adds."""
    from solar.analysis import EinsumGraphAnalyzer  # type: ignore[import-not-found]  # a checkout
    from solar.common.types import ProcessingConfig  # type: ignore[import-not-found]  # a checkout
    from solar.einsum import PyTorchToEinsum  # type: ignore[import-not-found]  # a checkout
    from solar.graph import PyTorchProcessor  # type: ignore[import-not-found]  # a checkout
    from solar.perf import EinsumGraphPerfModel  # type: ignore[import-not-found]  # a checkout

    file = folder / "model.py"
    file.write_text(text)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        done = PyTorchProcessor(ProcessingConfig(force_rerun=True)).process_model_file(str(file), str(folder))
        if not done:
            raise ValueError(f"SOLAR reads no graph: {said.getvalue()[-200:]}")
        PyTorchToEinsum().convert(folder / "pytorch_graph.yaml", folder / "einsum")
        counted = EinsumGraphAnalyzer().analyze_graph(folder / "einsum/einsum_graph_renamed.yaml", folder)
        found = EinsumGraphPerfModel().predict(
            folder / "analysis.yaml", folder / "perf", arch_config=_DEVICE, precision="fp32"
        )
    if not found or not counted:
        raise ValueError("SOLAR predicts nothing")
    whole = found["fused_prefetched"]
    return {"ms": whole["runtime_ms"], "bytes": whole["memory_bytes"], "macs": counted["total"]["macs"]}


def ours(problem: Problem, device: dict[str, Any]) -> dict[str, Any]:
    """Return the same of our bound, over the peaks of SOLAR's configuration, and counted as SOLAR does."""
    workload = problem.task.split(Split.SEARCH)[0]
    graph = recorded(problem, workload)
    moved = traffic(graph, workload, problem.task.contract).total_bytes
    counts = work(graph, workload)
    products = sum(flop for unit, flop in counts.items() if unit.startswith("tensor-")) / 2
    others = sum(flop for unit, flop in counts.items() if not unit.startswith("tensor-")) / 2
    stands, whole = products_by_definition(graph), whole_bytes(graph)
    hertz = device["freq_GHz"] * 1e9

    def figures(size: float, macs: float, more: float) -> dict[str, Any]:
        times = (size / device["DRAM_byte_per_cycle"], max(macs, more) / device["MAC_per_cycle_fp32_sm"])
        return {"ms": max(times) / hertz * 1e3, "bytes": int(size), "macs": int(macs)}

    saved = [[one.rule, one.op, int(one.by_definition), int(one.counted)] for one in savings(graph, workload)]
    return {
        "ours": figures(moved, products, others), "products_stand": figures(moved, stands, 0.0),
        "as_solar_counts": figures(whole, stands, 0.0), "rules": saved,
    }  # fmt: skip


def whole_bytes(graph: Graph) -> int:
    """Count what is read, and what is returned, as if all of it were needed and an element took four bytes."""
    names = [
        *dict.fromkeys(name for name in (*graph.inputs, *graph.state) if name and any(graph.users(name)))
    ]
    return 4 * sum(graph.node(name).elements for name in [*names, *dict.fromkeys(graph.outputs)])


def why_apart(row: dict[str, Any]) -> str:
    """Say by which rules our bound is not SOLAR's; empty where they agree, or where the rules do not explain it.

    Example:
        >>> own = {"ms": 1.0, "bytes": 8, "macs": 2}
        >>> stands = {"ms": 4.0, "bytes": 8, "macs": 8}
        >>> row = {"solar": stands, "as_solar_counts": stands, "products_stand": stands, "ours": own}
        >>> why_apart(row | {"rules": [["a convolution by transforms", "aten.convolution.default", 8, 2]]})
        'a convolution by transforms'
    """
    if near(row["ours"], row["solar"]) or not near(row["as_solar_counts"], row["solar"]):
        return ""
    rules = [] if near(row["ours"], row["products_stand"]) else [rule for rule, *_ in row["rules"]]
    if not near(row["products_stand"], row["as_solar_counts"]):
        rules.append("bytes that nothing reads, or a byte for a boolean")
    return "; ".join(dict.fromkeys(rules))


def near(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two times are within 10 %."""
    return bool(abs(one["ms"] / other["ms"] - 1) <= _WITHIN)


def main(argv: Sequence[str] | None = None) -> int:
    """Compare problem by problem, and print the share that agrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--solar", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="level")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-elements", type=float, default=1e6)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    sys.path.insert(0, str(asked.solar.resolve()))
    import yaml  # type: ignore[import-untyped]  # it has no types

    device = yaml.safe_load((asked.solar / f"configs/arch/{_DEVICE}.yaml").read_text())
    suite = get_suite("kernelbench")
    chosen = [p for p in suite.problems(asked.data) if asked.only in p.name]
    if asked.sample and asked.sample < len(chosen):
        chosen = sorted(random.Random(asked.seed).sample(chosen, asked.sample), key=lambda p: p.name)
    rows: list[dict[str, Any]] = []
    with setup(suite, asked.data, device="cpu", max_elements=int(asked.max_elements), minutes=2) as given:
        for problem in chosen:
            row: dict[str, Any] = {"problem": problem.name}
            try:
                with tempfile.TemporaryDirectory() as folder, given.task(problem) as task:
                    theirs, own = solars(reference_text(task), Path(folder)), ours(Problem(task), device)
                    row |= {"solar": theirs, **own, "ratio": round(own["ours"]["ms"] / theirs["ms"], 4)}
                    row["agrees"] = {kind: near(own[kind], theirs) for kind in KINDS}
                    row["why"] = why_apart(row)
            except (KernelwrightError, ValueError, ArithmeticError, KeyError) as error:
                row["reason"] = " ".join(str(error).split())[:200]
            rows.append(row | {"load": round(os.getloadavg()[0], 1)})
            print(json.dumps(rows[-1]), flush=True)
            if asked.out:
                asked.out.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return summary(rows)


def summary(rows: Sequence[dict[str, Any]]) -> int:
    """Print how many agree by each way of counting, and by which rules the others differ; 1 if one has no reason."""
    both = [row for row in rows if "agrees" in row]
    for kind in KINDS:
        print(f"{sum(row['agrees'][kind] for row in both)} of {len(both)} within {_WITHIN:.0%}: {kind}")
    for why, count in Counter(row["why"] for row in both if row["why"]).most_common():
        print(f"{count} apart: {why}")
    left = [row["problem"] for row in both if not row["agrees"]["ours"] and not row["why"]]
    print(f"{len(rows) - len(both)} not compared, {len(left)} without a reason: {', '.join(left)}")
    return int(bool(left) or len(both) < len(rows))


if __name__ == "__main__":
    sys.exit(main())
