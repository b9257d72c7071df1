"""One judge and one naive evaluation for all tests here, and detection by class at the end."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest

from .exploit import Exploit, exploits
from .judge import Judge, Outcome
from .naive import run_naive

OUTCOMES: dict[str, Outcome] = {}


@pytest.fixture(scope="session")
def judge(tmp_path_factory):
    with Judge(tmp_path_factory.mktemp("kernelwright")) as judge:
        yield judge


@pytest.fixture(scope="session")
def outcomes():
    """What became of each exploit, by name; filled by the tests."""
    return OUTCOMES


@pytest.fixture(scope="session", autouse=True)
def naive_evaluation(request, judge):
    """What the naive evaluator says of each exploit that was selected: on its way while the judge is at work."""
    wanted = {
        item.callspec.params["exploit"].name
        for item in request.session.items
        if isinstance(getattr(getattr(item, "callspec", None), "params", {}).get("exploit"), Exploit)
        and "naive_results" in item.fixturenames
    }
    chosen = [e for e in exploits() if e.name in wanted]
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(lambda: run_naive([(e, judge.artefact(e)) for e in chosen]))


@pytest.fixture
def naive_results(naive_evaluation):
    """What it said, by name."""
    return naive_evaluation.result()


def pytest_terminal_summary(terminalreporter):
    """Print detection by class."""
    if not OUTCOMES:
        return
    by_class: dict[tuple[int, str], list[Exploit]] = defaultdict(list)
    for exploit in exploits():
        if exploit.name in OUTCOMES:
            by_class[exploit.number, exploit.kind].append(exploit)
    terminalreporter.section("exploits by class")
    for (number, kind), members in sorted(by_class.items()):
        caught = sum(bool(OUTCOMES[e.name].caught_by) for e in members)
        checks = ", ".join(sorted({OUTCOMES[e.name].caught_by or "-" for e in members}))
        terminalreporter.write_line(f"{number:3} {kind[:52]:52} {caught}/{len(members)}  {checks}")
