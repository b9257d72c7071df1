"""The picture of all families is drawn from rows: what they say stands where it should; no time is looked at."""

import json
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from benchmarks.ops import picture

ROW = {"family": "norms", "op": "rms_norm", "size": "4096x4096", "dtype": "float32", "threads": 1, "ratio": 2.0,
       "times_us": {"kernel": 7046.0, "torch": 14092.0}}  # fmt: skip
MASK = ROW | {"family": "attention", "op": "mask causal", "size": "1x8x2048x64", "ratio": 400.0}
ROWS = (
    ROW, ROW | {"size": "1x4096", "ratio": 0.5}, ROW | {"threads": 2, "ratio": 0.1}, ROW | {"op": "adamw bytes"},
    MASK, MASK | {"op": "mask full", "ratio": 3.0}, {"problem": "bilinear", "threads": 1},
    ROW | {"flag": "-O3", "size": "8x8"},
    {"layer": "fine", "tokens": 4, "dtype": "bfloat16", "threads": 1, "ratio": {"loop": 2.8, "compile": 3.0}},
    {"weights": "int4", "activations": "float", "size": "1x64x64", "place": "memory", "dtype": "float32", "threads": 1,
     "ratio": {"openvino": 1.5}, "of_bound": 0.9},
)  # fmt: skip


@pytest.fixture
def results(tmp_path):
    for name in ("2026-11-25-a.jsonl", "2026-11-24-of-another-machine.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path


def test_each_row_of_one_thread_is_a_mark(results):
    found = {(m.family, m.op, m.size): m for m in picture.marks(sorted(results.glob("*")))}
    assert len(found) == 6
    large = found["norms", "rms_norm", "rms_norm 4096x4096"]
    assert large.share == pytest.approx(2 * 4096**2 * 4 / 38.1e9 / 7046e-6)
    assert found["norms", "rms_norm", "rms_norm 1x4096"].share is None, "it lies in a cache"
    assert found["moe", "fine layer", "4"].ratio == 2.8
    assert found["lowbit", "int4, float activations", "1x64x64 memory"].share == 0.9
    assert sum(op == "masks" for _, op, _ in found) == 2


def test_the_bound_of_a_product_is_its_multiplications():
    row = ROW | {"family": "gemm", "op": "matmul", "size": "256x512x1024", "dtype": "bfloat16"}
    rates = picture.RATES["2026-11-25-"]
    time_us = 2 * 256 * 512 * 1024 / (2 * 112e9) * 1e6
    assert picture.share(row | {"times_us": {"kernel": time_us}}, rates) == pytest.approx(1.0)
    assert picture.share(row | {"op": "an op whose work depends on values"}, rates) is None


def test_ratios_and_shares_stand_where_they_should(results):
    drawn = xml.fromstring(picture.picture(picture.marks(sorted(results.glob("*")))))
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"norms", "attention", "moe", "lowbit", "masks", "rms_norm", "1.00, least 0.50"} <= set(texts)
    paths = [
        path.get("d") for path in drawn.iter("{http://www.w3.org/2000/svg}path") if "v10" in path.get("d")
    ]
    (norms,) = (d for d in paths if d.count("M") == 3)
    at = [float(part.split()[0]) for part in norms.split("M")[1:]]
    one = (picture._ratio_x(2.0) + picture._ratio_x(0.5)) / 2
    assert one == pytest.approx(picture._ratio_x(1.0)) and at[0] < one < at[1] < at[2]
    assert any(f"M{picture._ratio_x(20.0):.0f} " in d for d in paths), "what is beyond stands at the end"


def test_the_script_writes_a_file_and_says_where_rows_come_from_if_there_are_none(results, tmp_path, capsys):
    out = tmp_path / "families.svg"
    assert picture.main(["--results", str(results), "--out", str(out)]) == 0
    assert out.read_text().startswith("<svg") and "6 marks of 4 families" in capsys.readouterr().out
    (tmp_path / "none").mkdir()
    with pytest.raises(SystemExit):
        picture.main(["--results", str(tmp_path / "none")])
    assert "no rows in" in capsys.readouterr().err


def test_the_page_has_a_picture_of_all_families_that_have_rows():
    drawn = Path("docs/ops/families.svg").read_text()
    every = picture.marks(sorted(Path("benchmarks/results/cpu").glob("*.jsonl")))
    families = {mark.family for mark in every}
    assert len(families) >= 16
    assert all(f">{family}</text>" in drawn for family in families)
