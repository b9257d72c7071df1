"""Candidates taken to another device and back: what is asked for, what runs there, what is refused here."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.api import bundles
from kernelwright.api.bundles import Asked, Bundle, import_records, write
from kernelwright.api.bundles._execute import execute
from kernelwright.api.bundles._manifest import Returned, is_of, write_manifest
from kernelwright.api.bundles._write import candidates_of
from kernelwright.cli import main
from kernelwright.devices import Device, detect
from kernelwright.errors import InputError, MissingToolError
from kernelwright.measure import decide
from kernelwright.records import (
    Block,
    Bound,
    BoundTerm,
    Build,
    BuildStatus,
    Candidate,
    CheckStatus,
    Evaluation,
    Finding,
    SourceFile,
    Split,
    Task,
    Timing,
    Variant,
    Verdict,
)  # fmt: skip
from kernelwright.search import found_by
from kernelwright.store import Store
from kernelwright.suites import Journal, Ours, Row, Theirs
from kernelwright.tasks import load_candidate, load_task

TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        for _ in range(8):
            x = torch.sqrt(torch.relu(x) ** 2)
        return x


def get_inputs():
    return [torch.rand(64, 4096)]


def get_init_inputs():
    return []
"""
RIGHT = "import torch\n\n\ndef run(x):\n    return x.clamp(min=0)\n"
WRONG = "import torch\n\n\ndef run(x):\n    return x.clamp(min=0) + 1e-3\n"


def candidate(text: str) -> Candidate:
    return Candidate(sources=(SourceFile(path="k.py", text=text),), language="torch", entry="k.py:run")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a task, a store, and a bundle that was not run."""
    home = tmp_path_factory.mktemp("bundles")
    (home / "task.py").write_text(TASK)
    with Store(home / "store") as store:
        write(
            load_task(str(home / "task.py")), [candidate(RIGHT), candidate(WRONG)], target="cpu",
            folder=home / "bundle", store=store, baselines=("eager",),
        )  # fmt: skip
    return home


def blocks_of(task: Task, phase: str, count: int) -> list[Block]:
    splits = (Split.SEARCH, Split.CONFIRM) if phase == "confirm" else (Split.SEARCH,)
    return [
        Block(
            workload=w.name, order=("candidate", "eager"), calls=1, phase=phase,
            times_us={"candidate": 100.0 + i % 3, "eager": 300.0 + i % 5},
        )
        for split in splits
        for w in task.split(split)[:1]
        for i in range(count)
    ]  # fmt: skip


def planted(task: Task, asked: Asked, *, right: bool) -> Evaluation:
    """What a device would say of a candidate: three times as fast as eager, or wrong."""
    device, text = detect("cpu").fingerprint, RIGHT if right else WRONG
    status = CheckStatus.PASS if right else CheckStatus.FAIL
    used = len(task.workloads) if right else 1
    verdict = Verdict(
        candidate=asked.candidate, findings=(Finding(check="correct", status=status),),
        seeds=asked.seeds[:used], failure="" if right else "correct",
    )  # fmt: skip
    variants = [
        Variant(name=name, content=content, symbol="run", worker=1)
        for name, content in (("candidate", asked.candidate), ("eager", "e"))
    ]
    blocks = (*blocks_of(task, "measure", 40), *blocks_of(task, "confirm", 40))
    timing = Timing(variants=tuple(variants), blocks=blocks, cache="warm", device=device) if right else None
    return Evaluation(
        candidate=candidate(text), build=Build(status=BuildStatus.OK, toolchain="t"), verdict=verdict,
        timing=timing, decision=decide(timing, verdict, bounds_of(task), task.contract, tried=2),
        stage="full", tried=2,
    )  # fmt: skip


def bounds_of(task: Task) -> tuple[Bound, ...]:
    read = BoundTerm(name="dram", amount=1e3, unit="bytes", peak=1e9, source="planted")
    return tuple(
        Bound(workload=w.name, device=detect("cpu").fingerprint, terms=(read,))
        for w in task.split(Split.SEARCH)
    )


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Path:
    """The bundle with planted records."""
    folder = Path(shutil.copytree(home / "bundle", tmp_path / "b"))
    bundle = Bundle.from_json((folder / "bundle.json").read_text())
    task = Task.from_json((folder / "task.json").read_text())
    records = folder / "records"
    (records / "evaluations").mkdir(parents=True)
    for asked, right in zip(bundle.candidates, (True, False), strict=True):
        text = planted(task, asked, right=right).to_json()
        (records / "evaluations" / f"{asked.candidate}.json").write_text(text)
    returned = Returned(
        bundle=bundle.key, device=detect("cpu"), environment={"torch": "2.11"}, bounds=bounds_of(task)
    )
    (records / "device.json").write_text(returned.to_json())
    write_manifest(records, [p for p in records.rglob("*.json") if p.name != "manifest.json"])
    return folder


@pytest.fixture
def store(home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(home / "store", tmp_path / "s"))


def imported(folder: Path, store: Path) -> None:
    with Store(store) as kept:
        import_records(folder, kept)


def right_of(folder: Path) -> Path:
    return folder / "records" / "evaluations" / f"{candidate(RIGHT).key}.json"


def rewritten(folder: Path, path: Path, change: Callable[[dict], None], *, hashed: bool = True) -> None:
    """Change a file of the records, and by default its hash with it."""
    held = json.loads(path.read_text())
    change(held)
    path.write_text(json.dumps(held))
    records = folder / "records"
    if hashed:
        write_manifest(records, [p for p in records.rglob("*.json") if p.name != "manifest.json"])


def test_planted_records_are_decided_here_by_the_same_function(
    folder: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["import", str(folder), "--store", str(store), "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (code, lines[-1]["judgements"]) == (0, 2), lines
    right, wrong = lines[0], lines[1]
    assert (right["candidate"], right["decision"]) == (candidate(RIGHT).key, "improved")
    assert 2.5 < right["speedup"]["low"] < 3
    assert (wrong["verdict"], wrong["decision"]) == ("rejected", "rejected")
    assert main(["import", str(folder), "--store", str(store)]) == 2
    with Store(store) as kept:
        assert f"imported already, as run {kept.run('last').id};" in capsys.readouterr().err
        assert sum(run.options.get("bundle") is not None for run in kept.runs()) == 1
    assert main(["decide", "last", "--recheck", "--store", str(store)]) == 0
    assert main(["show", "last", "--store", str(store)]) == 0
    with Store(store) as kept:
        run = kept.run("last")
        assert found_by(kept, run).key == candidate(RIGHT).key
        assert [c.key for c in candidates_of(kept, run)] == [candidate(RIGHT).key]


@pytest.mark.alone
@pytest.mark.long
def test_a_bundle_runs_from_its_own_wheel_with_an_empty_home(
    home: Path, shared_cache: Path, tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, empty = Path(shutil.copytree(home / "bundle", tmp_path / "b")), tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=folder, capture_output=True, text=True, timeout=1500,
        env={"HOME": str(empty), "PATH": os.environ["PATH"], "KERNELWRIGHT_CACHE": str(shared_cache)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(empty.iterdir())
    asked = Bundle.from_json((folder / "bundle.json").read_text())
    found = Evaluation.from_json(right_of(folder).read_text())
    assert found.verdict is not None and found.timing is not None, found.decision.reason
    assert found.verdict.seeds == asked.candidates[0].seeds[: len(found.verdict.seeds)]
    assert {b.phase for b in found.timing.blocks} >= {"measure", "confirm"}
    assert all(b.times_us.keys() == {"candidate", "eager"} for b in found.timing.blocks)
    assert main(["import", str(folder), "--store", str(store), "--json"]) == 0
    right, wrong, _ = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (right["decision"], wrong["decision"]) == ("improved", "rejected")


def test_the_wheel_holds_this_package_and_nothing_made_by_running_it(home: Path) -> None:
    with zipfile.ZipFile(next((home / "bundle" / "wheels").glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert {"kernelwright/flow.py", "kernelwright-0.1.0.dist-info/RECORD"} <= set(names)
    assert not any("__pycache__" in name for name in names)


def changed_block(held: dict) -> None:
    blocks = [b for b in held["timing"]["blocks"] if not b["repeated"]]
    for block in blocks:
        block["times_us"]["candidate"] /= 3


def no_workload(held: dict) -> None:
    first = held["timing"]["blocks"][0]["workload"]
    held["timing"]["blocks"] = [b for b in held["timing"]["blocks"] if b["workload"] != first]


def no_baseline(held: dict) -> None:
    del held["timing"]["blocks"][-1]["times_us"]["eager"]


def no_confirmation(held: dict) -> None:
    held["timing"]["blocks"] = [b for b in held["timing"]["blocks"] if b["phase"] == "measure"]


def other_seeds(held: dict) -> None:
    held["verdict"]["seeds"][0] += 1


def few_seeds(held: dict) -> None:
    held["verdict"]["seeds"] = held["verdict"]["seeds"][:1]


def timed_elsewhere(held: dict) -> None:
    held["timing"]["device"] = "cpu-0000000000000000"


def other_content(held: dict) -> None:
    held["timing"]["variants"][0]["content"] = held["timing"]["variants"][1]["content"] = "0" * 16


def other_source(held: dict) -> None:
    held["candidate"]["sources"][0]["text"] += "# faster\n"


def one_tried(held: dict) -> None:
    held["tried"] = 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed_block, "does not follow from its blocks"),
        (no_workload, "hold no block of workload"),
        (no_baseline, "lacks a time of candidate, eager"),
        (no_confirmation, "does not follow from its blocks"),
        (other_seeds, "other seeds than those asked for"),
        (few_seeds, "verified with 1 of"),
        (timed_elsewhere, "timed on another device"),
        (other_content, "instead of candidate"),
        (other_source, "not the one asked for"),
        (one_tried, "counts 1 candidates"),
    ],
)
def test_records_that_were_tampered_with_are_refused_even_with_new_hashes(
    folder: Path, store: Path, change: Callable[[dict], None], said: str
) -> None:
    rewritten(folder, right_of(folder), change)
    with pytest.raises(InputError, match=said) as error:
        imported(folder, store)
    assert "\n" not in str(error.value)
    with Store(store) as kept:
        assert not kept.runs()


def test_a_file_that_was_changed_left_out_or_added_is_refused(folder: Path, store: Path) -> None:
    whole = right_of(folder).read_text()
    rewritten(folder, right_of(folder), changed_block, hashed=False)
    with pytest.raises(InputError, match="not what was written"):
        imported(folder, store)
    right_of(folder).unlink()
    with pytest.raises(InputError, match="is missing, although the manifest names it"):
        imported(folder, store)
    right_of(folder).write_text(whole)
    (folder / "records" / "evaluations" / "more.json").write_text("{}")
    with pytest.raises(InputError, match="not in the manifest"):
        imported(folder, store)
    rewritten(folder, right_of(folder), lambda held: None)
    with pytest.raises(InputError, match=r"more\.json, which this bundle did not ask for"):
        imported(folder, store)


def test_another_device_and_another_bundle_are_refused(folder: Path, store: Path) -> None:
    path = folder / "records" / "device.json"
    whole = path.read_text()

    def gpu(held: dict) -> None:
        held["device"]["kind"] = "cuda"

    def slower(held: dict) -> None:
        held["device"]["cores"] += 1

    def other(held: dict) -> None:
        held["bundle"] = "0" * 16

    for change, said in (
        (gpu, "not cpu"),
        (slower, "of another device"),
        (other, "records are of bundle 000"),
    ):
        path.write_text(whole)
        rewritten(folder, path, change)
        with pytest.raises(InputError, match=said):
            imported(folder, store)


def test_a_swapped_candidate_is_refused_even_with_new_hashes(folder: Path, store: Path) -> None:
    swapped = folder / "candidates" / f"{candidate(RIGHT).key}.json"
    swapped.write_text(candidate(WRONG).to_json())
    with pytest.raises(InputError, match="not what was written"):
        imported(folder, store)
    write_manifest(
        folder,
        [
            p
            for p in folder.rglob("*")
            if p.is_file() and "records" not in p.parts and p.name != "manifest.json"
        ],
    )
    with pytest.raises(InputError, match="not the one asked for"):
        imported(folder, store)
    asked = json.loads((folder / "bundle.json").read_text())
    asked["candidates"][0]["seeds"][0] += 1
    (folder / "bundle.json").write_text(json.dumps(asked))
    write_manifest(
        folder,
        [
            p
            for p in folder.rglob("*")
            if p.is_file() and "records" not in p.parts and p.name != "manifest.json"
        ],
    )
    with pytest.raises(InputError, match="is no bundle that the store"):
        imported(folder, store)


@pytest.mark.parametrize("name", ["run.py", "wheels/kernelwright-0.1.0-py3-none-any.whl"])
def test_what_judges_there_cannot_be_swapped_even_with_new_hashes(
    folder: Path, store: Path, name: str
) -> None:
    (folder / name).write_bytes(b"print(1)")
    whole = [p for p in folder.rglob("*") if p.is_file() and "records" not in p.parts]
    write_manifest(folder, [p for p in whole if p.name != "manifest.json"])
    with pytest.raises(
        InputError, match=r"manifest\.json is not what this store wrote, .*run\.py or the wheel"
    ):
        imported(folder, store)


@pytest.mark.needs("no GPU")
def test_on_a_machine_without_a_gpu_a_bundle_for_one_says_where_to_take_it(asked: Path) -> None:
    assert cli(asked, "--for", "sm_90", "--baseline", "eager") == 0
    with pytest.raises(
        MissingToolError, match=r"^this bundle is for sm_90, and torch .* take the whole folder"
    ):
        execute(asked / "b")
    assert not (asked / "b" / "records").exists()


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "k.py").write_text(RIGHT)
    return tmp_path


def cli(folder: Path, *more: str) -> int:
    words = ["bundle", str(folder / "task.py"), str(folder / "k.py"), *more]
    return main([*words, "--to", str(folder / "b"), "--store", str(folder / "s")])


def test_a_bundle_for_a_gpu_is_written_without_one(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(asked, "--for", "sm_90", "--baseline", "eager") == 0
    assert "python3 run.py" in capsys.readouterr().out
    made = Bundle.from_json((asked / "b" / "bundle.json").read_text())
    task = load_task(str(asked / "task.py"))
    assert (made.target, made.task) == ("sm_90", task.key)
    assert made.candidates[0].candidate == load_candidate(asked / "k.py", task).key
    listed = (asked / "b" / "wheels.txt").read_text()
    assert "pydantic==" in listed
    assert "torch==" not in listed
    assert main(["import", str(asked / "b"), "--store", str(asked / "s")]) == 2
    assert "holds no records yet" in capsys.readouterr().err
    assert cli(asked, "--for", "sm_90") == 2
    assert "not an empty folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--for", "sm90"), "target 'sm90' is not known"),
        (("--for", "cpu", "--baseline", "nosuch"), "nosuch"),
    ],
)
def test_what_cannot_be_bundled_is_said(
    asked: Path, more: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(asked, *more) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (asked / "b").exists()


def test_a_language_that_is_not_timed_on_the_target_is_refused(
    asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (asked / "k.py").write_text(
        "import triton\n\n\n@triton.jit\ndef kernel(x):\n    pass\n\n\ndef run(x):\n    return x\n"
    )
    assert cli(asked, "--for", "cpu") == 2
    assert "not timed on cpu" in capsys.readouterr().err


def test_a_machine_that_lacks_a_package_says_which(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(asked, "--for", "cpu") == 0
    (asked / "b" / "wheels.txt").write_text("nosuchpackage==1.0\n")
    write_manifest(
        asked / "b", [p for p in (asked / "b").rglob("*") if p.is_file() and p.name != "manifest.json"]
    )
    done = subprocess.run(
        [sys.executable, str(asked / "b" / "run.py")], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 2
    assert "lacks nosuchpackage==1.0; put their wheels into" in done.stderr
    (asked / "b" / "task.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, str(asked / "b" / "run.py")], capture_output=True, text=True, timeout=100
    )
    assert "task.json is missing or was changed" in done.stderr


def suite_rows(home: Path, *runs: tuple[str, str]) -> Path:
    """Write rows of a suite whose problems were judged in these runs."""
    journal = Journal(home / "rows.jsonl")
    for problem, run in runs:
        ours = Ours(verdict="accepted", decision="improved", run=run)
        journal.keep(
            problem,
            Row(
                suite="kernelbench", problem=problem, group="level1", candidate="k.py", sizes="declared", seconds=1,
                theirs=Theirs(status="correct"), ours=ours,
            ),
        )  # fmt: skip
    return home / "rows.jsonl"


def test_a_suite_is_one_folder_with_a_bundle_for_each_problem_and_comes_back_as_runs(
    folder: Path, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(store) as kept:
        first = import_records(folder, kept).run
    rows = suite_rows(tmp_path, ("level1/1 a", first), ("level1/2", first), ("level1/3", ""))
    words = ["--for", "cpu", "--to", str(tmp_path / "suite"), "--store", str(store)]
    assert main(["bundle", f"suite:{rows}", *words, "--baseline", "eager"]) == 0
    said = capsys.readouterr().out
    assert "left out: level1/3: it has no run" in said
    assert "2 problem(s) of kernelbench for cpu" in said
    inner = tmp_path / "suite" / "level1-1-a"
    bundle = Bundle.from_json((inner / "bundle.json").read_text())
    assert (bundle.run, [a.candidate for a in bundle.candidates]) == (first, [candidate(RIGHT).key])
    records = inner / "records"
    (records / "evaluations").mkdir(parents=True)
    task = Task.from_json((inner / "task.json").read_text())
    held = planted(task, bundle.candidates[0], right=True).model_copy(update={"tried": 1})
    decided = decide(held.timing, held.verdict, bounds_of(task), task.contract, tried=1)
    (records / "evaluations" / f"{held.candidate.key}.json").write_text(
        held.model_copy(update={"decision": decided}).to_json()
    )
    back = Returned(bundle=bundle.key, device=detect("cpu"), environment={}, bounds=bounds_of(task))
    (records / "device.json").write_text(back.to_json())
    write_manifest(records, [p for p in records.rglob("*.json") if p.name != "manifest.json"])
    assert main(["import", str(tmp_path / "suite"), "--store", str(store)]) == 2
    out, err = capsys.readouterr()
    assert out.startswith(f"level1/1 a:\n{candidate(RIGHT).key}: improved")
    assert "level1/2: refused: " in err and "holds no records yet" in err


def test_run_py_of_a_suite_runs_each_bundle_that_has_no_records(tmp_path: Path) -> None:
    shutil.copyfile(Path(bundles.__file__).with_name("run_suite.py"), tmp_path / "run.py")
    listed = [{"problem": name, "folder": name} for name in ("done", "next", "broken")]
    (tmp_path / "suite.json").write_text(json.dumps({"bundles": listed}))
    for name, text in (
        ("done", "raise SystemExit('not again')"),
        ("next", "import pathlib\np = pathlib.Path(__file__).with_name('records')\np.mkdir()\n"
                 "(p / 'manifest.json').touch()"),
        ("broken", "raise SystemExit(4)"),
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.py").write_text(text)
    (tmp_path / "done" / "records").mkdir()
    (tmp_path / "done" / "records" / "manifest.json").touch()
    command = [sys.executable, str(tmp_path / "run.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 4
    assert done.stdout.splitlines() == ["[1/3] done: has records", "[2/3] next", "[3/3] broken"]
    assert "1 of 3 have no records, the first is broken" in done.stderr
    (tmp_path / "suite.json").unlink()
    assert subprocess.run(command, capture_output=True, timeout=100).returncode == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "is no file; expected rows that"), ("", "holds no rows"), ("{}", "holds no rows")],
)
def test_what_is_no_rows_of_a_suite_is_said(
    tmp_path: Path, text: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "rows.jsonl").write_text(text)
    words = ["bundle", f"suite:{tmp_path / 'rows.jsonl'}", "--for", "sm_90", "--to", str(tmp_path / "b")]
    assert main([*words, "--store", str(tmp_path / "s")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_targets_and_devices() -> None:
    amd = Device(
        kind="hip", name="MI300X", cores=1, memory_bytes=1, torch_device="cuda:0",
        facts={"architecture": "gfx942:sramecc+:xnack-", "capability": "9.4"},
    )  # fmt: skip
    assert is_of("gfx942", amd)
    assert not is_of("gfx90a", amd)
    assert not is_of("sm_94", amd)
    assert is_of("cpu", detect("cpu"))
    assert not is_of("sm_90", detect("cpu"))
    assert Returned(bundle="b", device=amd, environment={}, bounds=()).device == amd
