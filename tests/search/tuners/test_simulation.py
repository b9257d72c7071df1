"""Recorded spaces: what is read, what is refused, what is counted; and the command."""

import gzip
import json

import pytest

from kernelwright.cli import main
from kernelwright.errors import InputError
from kernelwright.search.replay.simulation import RecordedSpace, replay, simulate
from kernelwright.search.tuners import make_tuner

TABLE = "tile,order,time_ms,spread_ms\n8,row,2.5,0.1\n16,row,,\n16,column,1.25,0.1\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "toy-cpu.csv.gz"
    path.write_bytes(gzip.compress(TABLE.encode()))
    return path


def test_reads_parameters_failures_and_what_exists(table):
    recorded = RecordedSpace.load(table)
    assert recorded.name == "toy-cpu"
    assert recorded.times_us == {(8, "row"): 2500.0, (16, "row"): None, (16, "column"): 1250.0}
    assert [p.values for p in recorded.space.parameters] == [(8, 16), ("row", "column")]
    assert not recorded.space.allows({"tile": 8, "order": "column"})
    assert recorded.best_us == 1250.0


def test_survives_the_disk(table, tmp_path):
    recorded = RecordedSpace.load(table)
    recorded.save(tmp_path / "again.csv.gz")
    recorded.save(tmp_path / "again.csv")
    for name in ("again.csv.gz", "again.csv"):
        assert RecordedSpace.load(tmp_path / name).times_us == recorded.times_us


WRONG = {
    "empty": ("", "header"),
    "no time": ("a,b\n1,2\n", "time_ms"),
    "no parameter": ("time_ms\n1\n", "header"),
    "no rows": ("a,time_ms\n", "no row"),
    "nothing worked": ("a,time_ms\n1,\n", "no row"),
    "not a number": ("a,time_ms\n1,fast\n", "line 2.*'fast'"),
    "negative": ("a,time_ms\n1,-2\n", "'-2'"),
    "short row": ("a,b,time_ms\n1,2\n", "line 2"),
    "twice": ("a,time_ms\n1,2\n1,3\n", "two rows"),
    "same name": ("a,a,time_ms\n1,2,3\n", "same name"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_refuses_what_is_not_a_table(tmp_path, text, message):
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        RecordedSpace.load(path)


def test_counts_every_evaluation_once(table):
    recorded = RecordedSpace.load(table)
    told = []

    class Counting:
        def __init__(self):
            self.inner = make_tuner("exhaustive", recorded.space, 0)

        def ask(self):
            return self.inner.ask()

        def tell(self, configuration, time_us):
            told.append(time_us)
            self.inner.tell(configuration, time_us)

        def warm_start(self, observations):
            pass

    assert replay(recorded, Counting(), 2) == [2500.0, 2500.0]
    assert told == [2500.0, None]
    assert replay(recorded, Counting(), 10) == [2500.0, 2500.0, 1250.0]


def test_simulates_every_seed(table):
    recorded = RecordedSpace.load(table)
    found = simulate(recorded, lambda s, seed: make_tuner("random", s, seed), evaluations=1, seeds=30)
    assert len(found.fractions) == 30
    assert set(found.fractions) == {0.0, 0.5, 1.0}
    assert found.quantile(0.0) == 0.0 and found.quantile(1.0) == 1.0


def test_seeds_go_on_where_others_ended(table):
    recorded = RecordedSpace.load(table)

    def curves(first_seed, seeds):
        return simulate(
            recorded,
            lambda s, seed: make_tuner("random", s, seed),
            evaluations=1,
            seeds=seeds,
            first_seed=first_seed,
        ).curves_us

    assert curves(0, 4) + curves(4, 16) == curves(0, 20) and len(set(curves(0, 20))) > 1


def test_command_ends_with_one_json_line(table, capsys):
    assert main(["tune", "--space", str(table), "--evaluations", "3", "--seeds", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["event"] == "result" and result["space"] == "toy-cpu" and result["tuner"] == "gp"
    assert result["fraction_of_optimum"] == {"median": 1.0, "low": 1.0, "high": 1.0}


def test_command_prints_a_table(table, capsys):
    assert main(["tune", "--space", str(table), "--tuner", "exhaustive", "--evaluations", "1"]) == 0
    out = capsys.readouterr().out
    assert "exhaustive" in out and "0.500" in out


def test_command_starts_from_what_is_known_of_another_space(tmp_path, capsys):
    for name, slope in (("here", 1), ("there", 3)):
        rows = [f"{tile},{abs(tile - 77) * slope + 1}" for tile in range(200)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["tile,time_ms", *rows]))

    def median(*more):
        here = ["tune", "--space", str(tmp_path / "here.csv"), "--tuner", "random", "--evaluations", "1"]
        assert main([*here, "--seeds", "3", "--json", *more]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])["fraction_of_optimum"]["median"]

    assert median("--warm-start", str(tmp_path / "there.csv")) == 1.0 > median()
    assert median("--first-seed", "3") != median()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--space", "TABLE", "--warm-start", "OTHER"], "has the parameters rows; expected those of toy-cpu"),
        (["--space", "nosuch.csv.gz"], "nosuch.csv.gz"),
        (["--space", "TABLE", "--tuner", "nosuch"], "'nosuch'"),
        (["--space", "TABLE", "--evaluations", "0"], "evaluations"),
        (["--space", "TABLE", "--seeds", "-1"], "seeds"),
        ([], "space"),
    ],
)
def test_command_refuses_wrong_input(table, capsys, arguments, message):
    other = table.with_name("other.csv")
    other.write_text("rows,time_ms\n8,1.5\n")
    given = [{"TABLE": str(table), "OTHER": str(other)}.get(a, a) for a in arguments]
    assert main(["tune", *given]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
