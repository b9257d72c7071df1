"""The evidence that the documentation shows is what the rows under `benchmarks/results/` and the file say."""

import json
from pathlib import Path

from benchmarks.evidence import timed_in

from kernelwright.api.languages import latest, read_evidence

ROOT = Path(__file__).parents[2]
SHOWN = read_evidence(ROOT / "docs/languages/evidence.jsonl")


def test_what_was_timed_on_a_gpu_is_what_rows_of_gpus_hold():
    rows = [row for path in sorted(ROOT.glob("benchmarks/results/h[12]00/*.jsonl")) for row in timed_in(path)]
    held = {(row.language, row.target, row.machine, row.when, row.run) for row in latest(rows)}
    shown = {
        (r.language, r.target, r.machine, r.when, r.run)
        for r in SHOWN
        if r.state == "timed" and r.target != "cpu"
    }
    assert held == shown
    assert {language for language, *_ in shown} == {"cuda", "triton"}


def test_the_page_has_a_line_for_each_row_and_no_other():
    page = (ROOT / "docs/languages.md").read_text()
    lines = [f"| {r.language} | {r.target} | {r.state} | {r.machine} | {r.when[:10]} |" for r in SHOWN]
    table = page.partition("| language | target | state |")[2].partition("\n\n")[0]
    assert table.splitlines()[2:] == lines


def test_rows_without_a_candidates_times_show_nothing(tmp_path):
    device = {"date": "2026-11-27", "device": "NVIDIA H100 80GB HBM3"}
    judged = {"evaluation": {"timing": {"blocks": [{"times_us": {"eager": 3.0}}]}, "candidate": {}}}
    tried = {
        "tried": [{"language": "triton", "block_us": {}}, {"language": "triton", "block_us": {"eager": 1.0}}]
    }
    elsewhere = [
        {"date": "2026-11-27", "device": "a CPU"},
        {"tried": [{"language": "cpp", "block_us": {"candidate": 1.0}}]},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (device, judged, tried, *elsewhere)))
    assert list(timed_in(path)) == []
