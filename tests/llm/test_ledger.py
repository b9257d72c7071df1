"""Money: the cap holds over threads, deaths and resumed runs, and no question is paid for twice."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernelwright.errors import SpentError, StoreError
from kernelwright.llm import (
    FREE,
    CallFailed,
    Completion,
    FailureKind,
    FlatPrice,
    Ledger,
    ListedPrice,
    Usage,
    price_of,
)
from kernelwright.store import Calls

ANSWER = Completion(text="yes", usage=Usage(input_tokens=10, output_tokens=5), cost_usd=0.1)


def charge(ledger, key="k", most_usd=0.4):
    return ledger.charge(key, who="m", purpose="draft 0", most_usd=most_usd, request="[question]")


def test_a_call_is_charged_before_and_settled_after(ledger, calls, run):
    with charge(ledger) as charged:
        assert ledger.spent_usd == 0.4, "in full while it is under way"
        charged.completion = ANSWER
    assert ledger.spent_usd == 0.1
    (call,) = calls.of_run(run)
    assert (call.who, call.purpose, call.usd) == ("m", "draft 0", 0.1)
    assert call.usage == {"input_tokens": 10, "output_tokens": 5}
    assert ledger.kept("k") == ANSWER and ledger.kept("other") is None
    assert calls.transcript(run)[0]["request"] == "[question]"


@pytest.mark.parametrize(("billed", "spent"), [(False, 0.0), (True, 0.4)])
def test_a_failure_costs_what_it_may_have_been_billed(ledger, billed, spent):
    with pytest.raises(CallFailed), charge(ledger):
        raise CallFailed("no", FailureKind.SERVER, billed=billed)
    assert ledger.spent_usd == spent and ledger.kept("k") is None


def test_an_interrupt_in_mid_call_is_charged_in_full(ledger):
    with pytest.raises(KeyboardInterrupt), charge(ledger):
        raise KeyboardInterrupt
    assert ledger.spent_usd == 0.4


def test_the_cap_refuses_what_could_exceed_it_and_says_so(ledger):
    with charge(ledger, most_usd=0.7) as charged:
        with (
            pytest.raises(
                SpentError, match=r"up to 0\.4000 USD more, and 0\.7000 of 1\.0000 USD are spent.*--usd"
            ),
            charge(ledger),
        ):
            pass
        charged.completion = ANSWER
    with charge(ledger) as charged:
        charged.completion = ANSWER
    assert ledger.spent_usd == pytest.approx(0.2)


def test_the_cap_holds_over_threads_that_reserve_at_once(calls, run):
    ledger = Ledger(calls, run, cap_usd=1.0)

    def one(number):
        try:
            with charge(ledger, key=str(number), most_usd=0.3):
                assert ledger.spent_usd <= 1.0
                raise CallFailed("cut", FailureKind.GARBAGE, billed=True)
        except SpentError:
            return "refused"
        except CallFailed:
            return "charged"

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(one, range(16)))
    assert outcomes.count("charged") == 3
    assert ledger.spent_usd == pytest.approx(0.9)


def test_killed_in_mid_call_the_reservation_stays_and_counts_once(tmp_path, calls, run):
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from kernelwright.llm import Ledger\n"
        "from kernelwright.store import Calls\n"
        "ledger = Ledger(Calls(Path(sys.argv[1])), sys.argv[2], 1.0)\n"
        "with ledger.charge('k', who='m', purpose='p', most_usd=0.6, request=''):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), run], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    resumed = Ledger(calls, run, cap_usd=1.0)
    assert resumed.spent_usd == 0.6 and resumed.kept("k") is None
    with pytest.raises(SpentError), charge(resumed, most_usd=0.5):
        pass
    with charge(resumed, most_usd=0.4) as charged:
        charged.completion = ANSWER
    assert resumed.spent_usd == pytest.approx(0.7)


def test_a_call_that_can_cost_nothing_is_in_the_ledger_before_it_is_made(ledger, calls, run):
    with charge(ledger, most_usd=0.0) as charged:
        (under_way,) = calls.of_run(run)
        assert under_way.usd is None
        charged.completion = ANSWER.model_copy(update={"cost_usd": 0.0})
    (call,) = calls.of_run(run)
    assert call.usd == 0.0 and ledger.kept("k") == charged.completion and ledger.spent_usd == 0.0


def test_settling_twice_changes_nothing(calls, run):
    number = calls.reserve(run, key="k", who="m", purpose="p", usd=0.5, cap_usd=None)
    calls.settle(number, 0.2)
    calls.settle(number, 0.5)
    assert calls.spent_usd(run) == 0.2


def test_runs_do_not_share_a_cap_or_answers(calls, run, tmp_path):
    from kernelwright.records import Budget
    from kernelwright.store import Store
    from kernelwright.testing import planted_task

    with Store(tmp_path) as store:
        other = store.create_run(planted_task(), device="cpu", budget=Budget(), seed=0).id
    with charge(Ledger(calls, run, 1.0)) as charged:
        charged.completion = ANSWER
    assert Ledger(calls, other, 1.0).spent_usd == 0.0 and Ledger(calls, other, 1.0).kept("k") is None


def test_a_store_that_cannot_be_written_asks_nothing(tmp_path, calls):
    with pytest.raises(StoreError), charge(Ledger(calls, "no such run", None)):
        raise AssertionError("the call must not begin")


def test_a_store_of_the_first_schema_is_taken_along(tmp_path):
    import sqlite3

    from kernelwright.store._migrations import MIGRATIONS

    connection = sqlite3.connect(tmp_path / "kernelwright.db")
    MIGRATIONS[0](connection)
    connection.execute("PRAGMA user_version=1")
    connection.commit()
    connection.close()
    with Calls(tmp_path) as calls:
        assert calls.of_run("any") == []


class TestPrices:
    def test_the_list_knows_cached_tokens_to_be_cheaper(self):
        price = price_of("anthropic:claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5")
        assert isinstance(price, ListedPrice)
        plain = price.cost_usd(Usage(input_tokens=10_000, output_tokens=100))
        cached = price.cost_usd(Usage(input_tokens=10_000, cached_tokens=9_000, output_tokens=100))
        written = price.cost_usd(Usage(input_tokens=10_000, written_tokens=9_000, output_tokens=100))
        assert 0 < cached < plain < written

    def test_a_flat_price_is_never_below_the_list_for_what_is_written_to_a_cache(self):
        listed, flat = ListedPrice("anthropic", "claude-sonnet-4-5"), FlatPrice(3.0, 15.0)
        usage = Usage(input_tokens=10_000, written_tokens=10_000, output_tokens=100)
        assert flat.cost_usd(usage) >= listed.cost_usd(usage)

    def test_free_is_free(self):
        assert FREE.cost_usd(Usage(input_tokens=10**9, output_tokens=10**9)) == 0.0
