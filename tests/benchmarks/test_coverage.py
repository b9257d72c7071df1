"""The coverage command says how far each problem gets, and where it stops."""

import json
from pathlib import Path

import pytest
from benchmarks.coverage import examine, folder_of, read_rows, table
from benchmarks.problems import OWN

from kernelwright.config import Settings
from kernelwright.sandbox import Pool


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("coverage"))
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": folder, "KERNELWRIGHT_STORE": folder})
    with Pool(settings, arena_bytes=16 << 20) as pool:
        yield pool


def test_a_problem_goes_all_the_way(pool):
    row = examine(OWN / "level1" / "leaky_relu.py", 1, pool, language="cpp", max_elements=20_000)
    assert row["captured"] and row["printed"] and row["built"] and row["verified"], row["why"]
    assert row["native_share"] == 0 and row["first_s"] > 0 and row["operations"] >= 1
    assert row["first_cpu_s"] > 0


def test_a_file_that_is_no_problem_is_a_row_that_says_why(pool, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("class Model: ...\n")
    row = examine(path, 2, pool, language="cpp", max_elements=1000)
    assert not row["captured"] and "get_inputs" in row["why"]


def test_the_table_counts_by_level(tmp_path):
    row = {"level": 1, "problem": "a", "captured": True, "printed": True, "built": False, "verified": False,
           "why": "build: no"}  # fmt: skip
    good = {
        **row,
        "problem": "b",
        "built": True,
        "verified": True,
        "why": "",
        "native_share": 0.25,
        "first_s": 3.0,
        "first_cpu_s": 1.5,
    }
    text = table([row, good])
    assert "build: no" in text and "25 %" in text
    assert text.endswith("median 3.0 s to the first correct kernel (1.5 s of CPU time)")
    assert "level 1: 2 problems: 2 captured, 2 printed, 1 built, 1 verified (target 90% verified)" in text
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(good) + "\n")
    assert read_rows(path) == [good] and read_rows(Path("nothing")) == []


def test_a_checkout_is_found_by_its_levels(tmp_path):
    (tmp_path / "KernelBench" / "level1").mkdir(parents=True)
    assert folder_of(str(tmp_path)) == tmp_path / "KernelBench"
    assert folder_of(str(tmp_path / "KernelBench")) == tmp_path / "KernelBench"
    assert folder_of("own") == OWN
    with pytest.raises(FileNotFoundError, match="expected 'own' or a KernelBench checkout"):
        folder_of(str(tmp_path / "elsewhere"))
