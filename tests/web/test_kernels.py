"""Every configuration of every kernel, run in Node against the judge's expected values; wrong variants never serve."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.web.cases import JIT, TASKS, made, plain, write

NAMES = [n for n in re.findall(r"^def (\w+)", TASKS.read_text(), re.MULTILINE) if n != "sorted_rows"]
FOLDER = Path(__file__).parent


def node(script: str, *arguments: object) -> list[dict[str, object]]:
    """Run a script of this folder and return its lines."""
    command = ["node", "--experimental-wasm-relaxed-simd", FOLDER / script, *arguments]
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What became of each task, from one process of Node."""
    cases = [plain(name, made(name)) for name in NAMES]
    file = write(tmp_path_factory.mktemp("web") / "cases.json", cases)
    return {row["name"]: row for row in node("check.mjs", JIT, file)}


@pytest.mark.needs("node")
@pytest.mark.parametrize("name", NAMES)
def test_every_configuration_meets_the_contract(found, name):
    row = found[name]
    assert row["tried"] > 0
    assert row["scalar"] <= 1, "the scalar build"
    assert row["most"]["error"] <= 1, row["most"]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """What `tune.mjs` found, by the name of what was planted."""
    file = write(tmp_path_factory.mktemp("web") / "cases.json", [plain("norms", made("norms"))])
    return {row["name"]: row for row in node("planted.mjs", JIT, file)}


@pytest.mark.needs("node")
def test_what_is_right_and_faster_takes_over_and_is_remembered(tuned):
    assert tuned["right"]["simd"]
    assert tuned["right"]["error"] <= 1
    assert tuned["right"]["kept"] == 1


@pytest.mark.needs("node")
def test_a_step_that_is_known_is_not_tried_again(tuned):
    assert tuned["again"]["simd"]
    assert tuned["again"]["tried"] == 0
    assert tuned["again"]["cached"]


@pytest.mark.needs("node")
@pytest.mark.parametrize("how", ["paused", "timed again"])
def test_no_time_is_nothing_on_a_coarse_clock_of_a_busy_machine_or_from_another_visit(tuned, how):
    assert 0 < tuned[how]["us"] < 100
    assert 0 < tuned[how]["scalar_us"] < 1000


@pytest.mark.needs("node")
@pytest.mark.parametrize("how", ["grossly", "slightly", "known"])
def test_a_variant_that_is_wrong_never_serves(tuned, how):
    assert not tuned[how]["simd"]
    assert tuned[how]["error"] <= 1


@pytest.mark.needs("node")
def test_without_simd_the_scalar_build_serves(tuned):
    assert not tuned["without"]["simd"]
    assert tuned["without"]["tried"] == 0
    assert tuned["without"]["error"] <= 1
