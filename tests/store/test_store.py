import hashlib
import sqlite3
from datetime import datetime
from types import SimpleNamespace

import pytest

from kernelwright.errors import NotFoundError, StoreError
from kernelwright.records import Block, Budget, DecisionStatus, RunStatus, Timing, Variant
from kernelwright.store import Blobs, Calls, EvaluationKey, Store
from kernelwright.store._database import Database
from kernelwright.store._migrations import MIGRATIONS
from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate, planted_task


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def new_run(store, **options):
    return store.create_run(
        planted_task(), device="cpu-1", budget=Budget(evaluations=3), seed=7, options=options
    )


def evaluate(candidate, stage="screen"):
    judge, build = PlantedJudge(), PlantedLanguage().build(candidate)
    return judge.screen(candidate, build) if stage == "screen" else judge.accept(candidate, build)


def key_of(candidate, run, **changes):
    fields = {
        "candidate": candidate.key, "task": run.task, "device": run.device, "toolchain": "g++ 1", "harness": "1",
    }  # fmt: skip
    return EvaluationKey(**{**fields, **changes})


def test_run_comes_back_as_it_was(store):
    run = new_run(store, languages=("cpp",), tuner="local")
    assert store.run(run.id) == run == store.run("last") == store.run(run.id[:-2])
    assert store.runs() == [run]
    assert store.task(run.task) == planted_task()


def test_the_last_run_is_the_newest_though_the_clock_went_back(store, monkeypatch):
    def begin(year):
        clock = SimpleNamespace(now=lambda zone: datetime(year, 1, 1, tzinfo=zone))
        monkeypatch.setattr("kernelwright.store._store.datetime", clock)
        return store.create_run(planted_task(), device="cpu-1", budget=Budget(), seed=0).id

    first, second = begin(2031), begin(2026)
    assert store.run("last").id == second
    assert [run.id for run in store.runs()] == [second, first]


def test_unknown_names_are_input_errors(store):
    new_run(store)
    calls = (store.run, "nosuch"), (store.run, ""), (store.task, "x"), (store.candidate, "x")
    for call, name in calls:
        with pytest.raises(NotFoundError):
            call(name)


def test_finish_keeps_status_and_result(store):
    run = new_run(store)
    store.finish_run(run.id, RunStatus.FINISHED, {"decision": "equal"})
    assert store.run(run.id).status is RunStatus.FINISHED
    assert store.result(run.id) == {"decision": "equal"}
    store.finish_run(run.id, RunStatus.INTERRUPTED)
    assert store.result(run.id) == {"decision": "equal"}


def timed(candidate):
    block = Block(
        workload="n=4", order=("candidate", "eager"), calls=3, times_us={"candidate": 50.0, "eager": 100.0}
    )
    variant = Variant(name="candidate", content=candidate.key, symbol="run", worker=1)
    timing = Timing(variants=(variant,), blocks=(block,), cache="warm", device="cpu-1")
    return evaluate(candidate).model_copy(update={"timing": timing})


def test_evaluation_comes_back_with_its_raw_samples(store):
    run, candidate = new_run(store), planted_candidate(50.0)
    evaluation = timed(candidate)
    store.save_evaluation(run.id, key_of(candidate, run), evaluation, elapsed_s=1.0)
    assert store.evaluations(run.id) == [evaluation]
    assert store.candidate(candidate.key[:8]) == candidate


def test_a_timing_in_the_terms_of_an_early_version_is_read(tmp_path):
    with Store(tmp_path) as store:
        run, evaluation = new_run(store), timed(planted_candidate(50.0))
        store.save_evaluation(run.id, key_of(evaluation.candidate, run), evaluation, elapsed_s=1.0)
    with sqlite3.connect(tmp_path / "kernelwright.db") as connection:
        (name,) = connection.execute("SELECT timing FROM evaluations").fetchone()
        connection.execute(
            "UPDATE blobs SET data = CAST(replace(data, '\"variants\"', '\"legs\"') AS BLOB) WHERE name = ?",
            (name,),
        )
    with Store(tmp_path) as store:
        assert store.evaluations(run.id) == [evaluation]


def test_saving_twice_changes_nothing(store):
    run, candidate = new_run(store), planted_candidate(50.0)
    for _ in range(3):
        store.save_evaluation(run.id, key_of(candidate, run), evaluate(candidate), elapsed_s=1.0)
    assert len(store.evaluations(run.id)) == 1
    assert store.spent(run.id).evaluations == 1
    assert store.spent(run.id).device_s == 0.5


def test_stages_of_a_candidate_count_once_and_the_furthest_is_returned(store):
    run, candidate = new_run(store), planted_candidate(50.0)
    store.save_evaluation(run.id, key_of(candidate, run), evaluate(candidate), elapsed_s=1.0)
    store.save_evaluation(run.id, key_of(candidate, run), evaluate(candidate, "full"), elapsed_s=2.0)
    (found,) = store.evaluations(run.id)
    assert found.stage == "full"
    spent = store.spent(run.id)
    assert (spent.evaluations, spent.device_s, spent.elapsed_s) == (1, 1.0, 2.0)


def test_lookup_across_runs_unless_anything_changed(store):
    first, candidate = new_run(store), planted_candidate(50.0)
    store.save_evaluation(first.id, key_of(candidate, first), evaluate(candidate), elapsed_s=1.0)
    second = new_run(store)
    found = store.lookup(key_of(candidate, second))
    assert found is not None and found.cached
    store.save_evaluation(second.id, key_of(candidate, second), found, elapsed_s=0.1)
    spent = store.spent(second.id)
    assert (spent.evaluations, spent.cached, spent.device_s) == (0, 1, 0.0)
    for change in ({"device": "cpu-2"}, {"toolchain": "g++ 2"}, {"harness": "2"}, {"task": "other"}):
        assert store.lookup(key_of(candidate, second, **change)) is None


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (DecisionStatus.UNKNOWN, "as planted"),
        (DecisionStatus.REJECTED, "correct: on a hidden workload: timeout: no answer to call within 10 s"),
    ],
)
def test_what_may_come_out_otherwise_is_asked_again_and_then_replaced(store, status, reason):
    """Nothing was decided, or a worker was late, as it may be on a busy machine."""
    run, candidate = new_run(store), planted_candidate(50.0)
    known = evaluate(candidate)
    decision = known.decision.model_copy(update={"status": status, "reason": reason})
    unknown = known.model_copy(update={"decision": decision})
    store.save_evaluation(run.id, key_of(candidate, run), unknown, elapsed_s=1.0)
    assert store.lookup(key_of(candidate, run)) is None
    store.save_evaluation(run.id, key_of(candidate, run), known, elapsed_s=2.0)
    assert store.lookup(key_of(candidate, run)).decision == known.decision


def test_events_in_order(store):
    run = new_run(store)
    for number in range(3):
        store.append_event(run.id, {"event": "evaluation", "number": number})
    assert [e["number"] for e in store.events(run.id)] == [0, 1, 2]


def test_two_connections_write_at_once(tmp_path):
    with Store(tmp_path) as one, Store(tmp_path) as other:
        run = new_run(one)
        for number in range(20):
            (one if number % 2 else other).append_event(run.id, {"number": number})
        assert [e["number"] for e in one.events(run.id)] == list(range(20))


def test_failed_transaction_leaves_nothing(store, monkeypatch):
    run, candidate = new_run(store), planted_candidate(50.0)
    # No such run: the link fails after candidate and evaluation were written.
    with pytest.raises(StoreError, match="could not be read or written"):
        store.save_evaluation("nosuch", key_of(candidate, run), evaluate(candidate), elapsed_s=1.0)
    assert store.lookup(key_of(candidate, run)) is None
    with pytest.raises(NotFoundError):
        store.candidate(candidate.key)


def test_store_where_none_can_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"could not be read or written .*--store"):
        Store(tmp_path / "file" / "store")
    with pytest.raises(StoreError, match=r"file' is a file; expected a folder"):
        Store(tmp_path / "file")


def test_store_of_a_newer_program(tmp_path):
    Store(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "kernelwright.db")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StoreError, match="schema 99"):
        Store(tmp_path)


def test_damaged_store_is_one_sentence(tmp_path):
    (tmp_path / "kernelwright.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"is damaged \(file is not a database\); move it away"):
        Store(tmp_path)


def test_long_blobs_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    database, folder, kernel = Database(tmp_path / "kernelwright.db"), tmp_path / "blobs", b"kernel" * 20_000
    blobs = Blobs(database, folder)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(StoreError, match="No space left"):
            blobs.put(kernel)
    assert [p for p in folder.rglob("*") if p.is_file()] == []
    name = blobs.put(kernel)
    assert blobs.get(name) == kernel
    with pytest.raises(NotFoundError):
        blobs.get("00" * 32)
    database.close()


def test_short_blobs_are_there_if_the_transaction_is(tmp_path):
    database = Database(tmp_path / "kernelwright.db")
    blobs = Blobs(database, tmp_path / "blobs")
    with pytest.raises(RuntimeError, match="given up"), database.transaction():
        lost = blobs.put(b"lost")
        raise RuntimeError("given up")
    with database.transaction():
        kept = blobs.put(b"kept")
    assert blobs.get(kept) == b"kept" and not (tmp_path / "blobs").exists()
    with pytest.raises(NotFoundError):
        blobs.get(lost)
    database.close()


def test_a_store_from_before_blobs_were_in_the_database_is_read(tmp_path):
    with Store(tmp_path) as store:
        run, candidate = new_run(store), planted_candidate(50.0)
        store.save_evaluation(run.id, key_of(candidate, run), evaluate(candidate), elapsed_s=1.0)
    connection = sqlite3.connect(tmp_path / "kernelwright.db")
    for name, data in connection.execute("SELECT name, data FROM blobs").fetchall():
        path = tmp_path / "blobs" / name[:2] / name[2:]
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    connection.executescript("DROP TABLE blobs; PRAGMA user_version=4")
    connection.close()
    with Store(tmp_path) as store:
        assert [e.candidate for e in store.evaluations(run.id)] == [candidate]


def test_what_costs_something_is_flushed_and_nothing_else(tmp_path, monkeypatch):
    with Store(tmp_path) as store:
        run = new_run(store).id
    levels = []
    write = Database.write

    def watched(database, sql, values=()):
        levels.append(database.read("PRAGMA synchronous")[0][0])
        write(database, sql, values)

    monkeypatch.setattr(Database, "write", watched)
    normal, full = 1, 2
    with Calls(tmp_path) as calls:
        for usd in (0.0, 1.0, 0.0):
            number = calls.reserve(run, key="k", who="m", purpose="p", usd=usd, cap_usd=None, request="a")
            calls.settle(number, usd, reply="b")
    assert levels == [normal, normal, full, full, normal, normal]


def test_the_log_is_moved_into_the_file_at_the_end_not_in_between(tmp_path):
    database = Database(tmp_path / "kernelwright.db")
    blobs = Blobs(database, tmp_path / "blobs")
    for n in range(60):
        blobs.put(bytes([n]) * 90_000)
    size_before = database.path.stat().st_size
    database.close()
    assert size_before < 1_000_000 and database.path.stat().st_size > 5_000_000


def test_the_texts_of_a_store_of_an_earlier_schema_are_kept(tmp_path):
    connection = sqlite3.connect(tmp_path / "kernelwright.db")
    for migration in MIGRATIONS[:5]:
        migration(connection)
    name = hashlib.sha256(b"kernel").hexdigest()
    connection.execute("INSERT INTO blobs VALUES (?, ?)", (name, b"kernel"))
    connection.execute("PRAGMA user_version=5")
    connection.commit()
    connection.close()
    with Store(tmp_path) as store:
        assert store.blobs.get(name) == b"kernel" and store.blobs.put(b"kernel") == name
