"""Our bounds against SOLAR's, of the same problems and on the same device.

    python -m benchmarks.solar_agreement --solar DIR --data KERNELBENCH [--only level1] [--sample COUNT --seed SEED]
                                         [--max-elements N] [--out rows.jsonl]

SOLAR (NVlabs/SOLAR) computes the least time of SOL-ExecBench's scores. DIR is its checkout; the torchview that its
`install.sh` patches is on the PYTHONPATH. Each of KernelBench's problems is shrunk, and both are given that text.
SOLAR's time is that of a single roofline for the whole graph, everything overlapping, in float32, on the H100 of its
own configuration; ours is the greatest of bytes, products and other operations, over the peaks of that configuration.

SOLAR counts every product as it stands; our bound counts what the fastest known algorithm leaves of it. A row has both:
`as_solar_counts` are our bytes with products as they stand, `ours` is the bound, and `why` says where it is lower. Two
figures agree within 10 %.
"""

import argparse
import contextlib
import io
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.bound import products_by_definition, traffic, work
from kernelwright.errors import KernelwrightError
from kernelwright.records import Split
from kernelwright.suites import get_suite, setup
from kernelwright.suites._modules import reference_text
from kernelwright.tasks import Problem
from kernelwright.tasks.capture import recorded

_DEVICE = "H100_PCIe"
_WITHIN = 0.1


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


def ours(problem: Problem, device: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the same of our bound, over the peaks of SOLAR's configuration, and with products as they stand."""
    workload = problem.task.split(Split.SEARCH)[0]
    graph = recorded(problem, workload)
    moved = traffic(graph, workload, problem.task.contract).total_bytes
    counts = work(graph, workload)
    products = sum(flop for unit, flop in counts.items() if unit.startswith("tensor-")) / 2
    others = sum(flop for unit, flop in counts.items() if not unit.startswith("tensor-")) / 2
    hertz = device["freq_GHz"] * 1e9

    def figures(macs: float, more: float) -> dict[str, Any]:
        times = (moved / device["DRAM_byte_per_cycle"], max(macs, more) / device["MAC_per_cycle_fp32_sm"])
        return {"ms": max(times) / hertz * 1e3, "bytes": moved, "macs": int(macs)}

    return {"ours": figures(products, others), "as_solar_counts": figures(products_by_definition(graph), 0.0)}


def why_apart(row: dict[str, Any]) -> str:
    """Say why our bound is not SOLAR's, by the counts of both; empty where they agree.

    Example:
        >>> own = {"ms": 1.0, "bytes": 8, "macs": 2}
        >>> stands = {"ms": 4.0, "bytes": 8, "macs": 8}
        >>> row = {"problem": "50_conv", "ratio": 0.25, "solar": stands, "as_solar_counts": stands, "ours": own}
        >>> why_apart(row)
        'a faster algorithm for a convolution'
    """
    own, stands, solar = row["ours"], row["as_solar_counts"], row["solar"]
    if abs(row["ratio"] - 1) <= _WITHIN:
        return ""
    if own["ms"] <= (1 - _WITHIN) * stands["ms"]:
        if not own["macs"]:
            return "a product disappears in a sum that follows it"
        by_algorithm = "conv" in row["problem"].lower()
        return "a faster algorithm for a convolution" if by_algorithm else "part of a product is not needed"
    return (
        "fewer bytes: what is never read, and a byte for a boolean" if own["bytes"] < solar["bytes"] else ""
    )


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
                    row |= {"solar": theirs, **own}
                    for key, ratio in (("ours", "ratio"), ("as_solar_counts", "ratio_as_solar_counts")):
                        row[ratio] = round(own[key]["ms"] / theirs["ms"], 4)
                    row["agrees"] = abs(row["ratio"] - 1) <= _WITHIN
                    row["agrees_as_solar_counts"] = abs(row["ratio_as_solar_counts"] - 1) <= _WITHIN
                    row["why"] = why_apart(row)
            except (KernelwrightError, ValueError, ArithmeticError, KeyError) as error:
                row["reason"] = " ".join(str(error).split())[:200]
            rows.append(row | {"load": round(os.getloadavg()[0], 1)})
            print(json.dumps(rows[-1]), flush=True)
            if asked.out:
                asked.out.write_text("".join(json.dumps(r) + "\n" for r in rows))
    both = [r for r in rows if "ratio" in r]
    same = sum(r["agrees_as_solar_counts"] for r in both)
    print(
        f"{same} of {len(both)} within {_WITHIN:.0%} with products as they stand, {sum(r['agrees'] for r in both)} of "
        f"our bounds; {len(rows) - len(both)} not compared"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
