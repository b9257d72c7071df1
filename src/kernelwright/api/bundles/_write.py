"""Task, Candidates → a folder to take to the device."""

import hashlib
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError, MissingToolError
from ...languages import get_language
from ...records import Candidate, DecisionStatus, Run, Split, Task, VerdictStatus
from ...search import check_choices, found_by
from ...search.evaluation.acceptance import harness_of
from ...store import Store
from ._manifest import (
    ASKED,
    CANDIDATES,
    KEPT,
    KEPT_FILES,
    MANIFEST,
    RUN,
    TASK,
    WHEEL_LIST,
    WHEELS,
    Asked,
    Bundle,
    check_target,
    files_of,
    kind_of,
    write_manifest,
)  # fmt: skip
from ._wheel import needed, write_wheel

_SPARE_SEEDS, _SEEDS_A_WORKLOAD = 64, 4
_MOST = 8
_DOWNLOAD_S = 600.0
_PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)
_README = """# {name} for {target}

Take this folder to a machine with {target}, Python 3.11 or later (3.12 is what the wheels are for), torch 2.11 or
later{triton}. It needs no network. There:

    python3 run.py

verifies {count} candidate(s), times them in paired blocks, and writes `records/`. Bring the whole folder back:

    kernelwright import FOLDER

It needs these packages there, besides torch: see `wheels.txt`. Those in `wheels/` are used where they are missing.
"""


def candidates_of(store: Store, run: Run, most: int = _MOST) -> list[Candidate]:
    """Return the candidates of a run that are worth a device: none that is wrong; those accepted or fastest first,
    or first by a modelled time.

    Raises:
        NotFoundError: the run evaluated no candidate that was right.
    """
    right = [
        e
        for e in store.evaluations(run.id)
        if e.is_executed or (e.verdict and e.verdict.status is VerdictStatus.ACCEPTED)
    ]
    right.sort(
        key=lambda e: (
            e.decision.status is not DecisionStatus.IMPROVED,
            -(e.decision.speedup.median if e.decision.speedup else e.executed_order),
        )
    )
    return [e.candidate for e in right[:most]] or [found_by(store, run)]


def write(
    task: Task,
    candidates: Sequence[Candidate],
    *,
    target: str,
    folder: Path,
    store: Store,
    baselines: Sequence[str] = (),
    run: str = "",
    wheels: bool = False,
) -> Bundle:
    """Write a bundle and keep in the store what it asks for.

    Args:
        task: The task, with its hidden workloads: whoever runs the bundle must not show the folder to a proposer.
        candidates: What to judge.
        target: `sm_90`, `gfx942`, ... or `cpu`.
        folder: A folder that does not exist, or is empty.
        store: Remembers the bundle, so that `import_records` knows what was asked for.
        baselines: Native forms to beat; by default as for `optimize`.
        run: The run that the candidates come from.
        wheels: Download the wheels of what Kernelwright needs, for Python 3.12 on x86-64 Linux.

    Raises:
        InputError: no candidate, an unknown target, a folder with something in it, a language that the target's
            device does not run.
        MissingToolError: the wheels could not be downloaded.
    """
    if not candidates:
        raise InputError("a bundle needs at least one candidate; name a source file, or a run that found one")
    check_target(target)
    _check_languages(candidates, target)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not an empty folder; name a new one with --to")
    beaten = check_choices(task, baselines)
    (folder / CANDIDATES).mkdir(parents=True)
    (folder / WHEELS).mkdir()
    wheel = write_wheel(folder / WHEELS)
    unique = {c.key: c for c in candidates}
    bundle = Bundle(
        task=task.key,
        task_name=task.name,
        target=target,
        candidates=tuple(Asked(candidate=key, seeds=_seeds(task)) for key in unique),
        baselines=beaten,
        harness=harness_of(beaten),
        wheel=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        run=run,
    )
    (folder / TASK).write_text(task.to_json())
    for key, candidate in unique.items():
        (folder / CANDIDATES / f"{key}.json").write_text(candidate.to_json())
    (folder / ASKED).write_text(bundle.to_json())
    listed = needed()
    (folder / WHEEL_LIST).write_text("".join(f"{line}\n" for line in listed))
    if wheels:
        _download(listed, folder / WHEELS)
    shutil.copyfile(Path(__file__).with_name(RUN), folder / RUN)
    uses_triton = ", triton 3.6 or later" if any(c.language == "triton" for c in candidates) else ""
    (folder / "README.md").write_text(
        _README.format(name=task.name, target=target, triton=uses_triton, count=len(unique))
    )
    write_manifest(folder, [p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST])
    store.keep(KEPT, bundle.key, {bundle.key: bundle.to_json()})
    store.keep(KEPT_FILES, bundle.key, {bundle.key: files_of(folder, bundle)})
    return bundle


def _seeds(task: Task) -> tuple[int, ...]:
    count = _SPARE_SEEDS + _SEEDS_A_WORKLOAD * len(task.workloads)
    return tuple(secrets.randbits(48) for _ in range(count))


def _check_languages(candidates: Sequence[Candidate], target: str) -> None:
    device = kind_of(target)
    for candidate in candidates:
        if not get_language(candidate.language).timeable(device):
            raise InputError(
                f"candidate {candidate.key} is in {candidate.language}, which is not timed on {target}; name one in "
                "a language of that device, such as triton for a GPU"
            )


def searched(task: Task) -> tuple[str, ...]:
    """Name the search workloads, on which there must be blocks."""
    return tuple(w.name for w in task.split(Split.SEARCH))


def _download(listed: Sequence[str], folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp"]
    for tag in ("cp312", "abi3", "none"):
        command += ["--abi", tag]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    done = subprocess.run(
        [*command, "--dest", str(folder), *listed],
        capture_output=True,
        text=True,
        timeout=_DOWNLOAD_S,
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise MissingToolError(
            f"pip could not download the wheels: {said}; leave --wheels out and copy them by hand"
        )
