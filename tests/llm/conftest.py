import pytest

from kernelwright.llm import Ledger
from kernelwright.records import Budget
from kernelwright.store import Calls, Store
from kernelwright.testing import planted_task


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def run(tmp_path):
    with Store(tmp_path) as store:
        return store.create_run(planted_task(), device="cpu", budget=Budget(), seed=0).id


@pytest.fixture
def calls(tmp_path, run):
    with Calls(tmp_path) as calls:
        yield calls


@pytest.fixture
def ledger(calls, run):
    return Ledger(calls, run, cap_usd=1.0)
