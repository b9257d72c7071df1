"""One pool for each kind of isolation that this machine has, and candidates from source text."""

from collections.abc import Callable, Iterator

import pytest
import torch
from tests.tools import is_here

from kernelwright.config import Settings
from kernelwright.records import Candidate, SourceFile, TensorSpec
from kernelwright.sandbox import Payload, Pool, Worker

EVERY_KIND = [
    pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("landlock", marks=pytest.mark.needs("Landlock")),
    "none",
]
"""Each kind of isolation, for tests of all of them."""
KINDS = [
    kind
    for kind, here in (("bubblewrap", is_here("bwrap")), ("landlock", is_here("Landlock")), ("none", True))
    if here
]
"""Those that this machine has, the strongest first."""


def payload(text: str, entry: str = "run", style: str = "function", **options: object) -> Payload:
    candidate = Candidate(
        sources=(SourceFile(path="kernel.py", text=text),),
        language="torch",
        entry=f"kernel.py:{entry}",
        style=style,
    )
    return Payload(candidate, **options)


def vector(size: int = 4, name: str = "y") -> tuple[TensorSpec, ...]:
    return (TensorSpec(name=name, shape=(size,), dtype="float32"),)


@pytest.fixture(scope="session")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Pool]]:
    made: dict[str, Pool] = {}
    folder = tmp_path_factory.mktemp("settings")

    def get(kind: str) -> Pool:
        if kind not in made:
            environ = {
                "KERNELWRIGHT_SANDBOX": kind,
                "KERNELWRIGHT_CACHE": str(folder),
                "KERNELWRIGHT_STORE": str(folder),
            }
            made[kind] = Pool(Settings.from_environment(environ), arena_bytes=1 << 24, memory_bytes=1 << 30)
        return made[kind]

    yield get
    for pool in made.values():
        pool.close()


@pytest.fixture
def pool(pools: Callable[[str], Pool]) -> Iterator[Pool]:
    pool = pools(KINDS[0])
    yield pool
    pool.arena.reset()


@pytest.fixture(params=EVERY_KIND)
def any_pool(request: pytest.FixtureRequest, pools: Callable[[str], Pool]) -> Iterator[Pool]:
    pool = pools(request.param)
    yield pool
    pool.arena.reset()


@pytest.fixture(params=EVERY_KIND[:-1])
def closed_pool(request: pytest.FixtureRequest, pools: Callable[[str], Pool]) -> Iterator[Pool]:
    """Each kind of isolation that closes files."""
    pool = pools(request.param)
    yield pool
    pool.arena.reset()


@pytest.fixture
def run(pool: Pool) -> Callable[..., Worker]:
    """Start a worker on a source text, call it once on four ones, and return it for inspection."""
    return lambda text, **options: call_once(pool, text, **options)


def call_once(pool: Pool, text: str, deadline_s: float = 120.0) -> torch.Tensor:
    with pool.worker(payload(text), deadline_s=deadline_s) as worker:
        number = worker.bind((pool.arena.place(torch.ones(4)),), vector())
        worker.call([number], deadline_s=deadline_s)
        (output,) = worker.fetch().outputs
        return output
