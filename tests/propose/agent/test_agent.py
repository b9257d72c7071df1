"""Scripted agents at work: an honest one, and those that edit, hang, fork, print garbage, cheat or spend."""

import json
import sys
import textwrap

import psutil
import pytest

from kernelwright.devices import detect
from kernelwright.errors import InputError, ModelError, NotFoundError, SpentError
from kernelwright.propose import Editor, Move, Proposer, Request
from kernelwright.propose.agent import AgentEditor, AgentProposer, Spend, make_agent
from kernelwright.propose.agent.claude import Claude
from kernelwright.records import Budget
from kernelwright.store import Calls, Store
from kernelwright.tasks import Problem, load_task

TASK = """
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 4, "columns": 16}])
def double(x):
    return x * 2
"""
KERNEL = "def run(x):\n    return x + x\n"
JUDGE = """
import json, pathlib, sys
with open({log!r}, "a") as log:
    print(json.dumps(sys.argv[1:]), file=log)
print(json.dumps({{"event": "ready"}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    (file,) = pathlib.Path(asked["candidate"]).iterdir()
    right = "x + x" in file.read_text()
    print(json.dumps({{"event": "result", "verdict": "accepted" if right else "rejected"}}), flush=True)
"""
GRADING = """
import json, pathlib, sys
for line in sys.stdin:
    (file,) = pathlib.Path(json.loads(line)["candidate"]).iterdir()
    median = float(file.read_text().split("#")[1])
    speedup = {"median": median, "low": None, "high": None}
    print(json.dumps({"event": "result", "verdict": "accepted", "speedup": speedup}), flush=True)
"""
HEAD = """
import json, os, pathlib, subprocess, sys, time
left = pathlib.Path("candidate/kernel.py")
def judge():
    done = subprocess.run(["./judge"], capture_output=True, text=True)
    print(done.stdout, done.stderr, flush=True)
    return json.loads(done.stdout)
"""


class Scripted:
    """An agent that is a Python script."""

    name, says_usd, environment, home = "scripted", True, ("PLANTED_*",), ()

    def __init__(self, file, usd=0.0):
        self.file, self.usd, self.jobs = file, usd, []

    def command(self, job):
        self.jobs.append(job)
        return [sys.executable, str(self.file)]

    def spend(self, output):
        return Spend(self.usd, {"output_tokens": output.count("token")})


class World:
    """A task, a store with a run, a judge's program, and an editor whose agent is a script."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "double.py").write_text(TASK)
        (folder / "judge.py").write_text(JUDGE.format(log=str(folder / "judged")))
        self.task = load_task(folder / "double.py")
        self.options = {"device": "cpu", "baselines": ("eager",)}
        self.open(Budget())

    def open(self, budget):
        with Store(self.folder / "store") as store:
            self.run = store.create_run(self.task, device="cpu-1", budget=budget, seed=0).id

    def edit(self, script, *, confine=False, usd=0.0, agent=None, move=None, **more):
        editor = self.editor(script, confine=confine, usd=usd, agent=agent)
        return editor.edit(move or Move(number=3, operator="draft", goal="be quick"), self.request(**more))

    def proposer(self, script, **more):
        return AgentProposer(self.editor(script, **more))

    def editor(self, script, *, confine=False, usd=0.0, agent=None):
        (self.folder / "agent.py").write_text(HEAD + textwrap.dedent(script))
        self.agent = agent or Scripted(self.folder / "agent.py", usd)
        return AgentEditor(
            program=(sys.executable, str(self.folder / "judge.py")),
            make=lambda _: self.agent,
            confine=confine,
        )

    def request(self, **more):
        return Request(
            Problem(self.task), detect("cpu"), (), ("cpp", "torch"), options=self.options,
            store=self.folder / "store", run=self.run, lessons=("a lesson of old",), **more,
        )  # fmt: skip

    def transcript(self):
        with Calls(self.folder / "store") as calls:
            return calls.transcript(self.run)[-1]["reply"]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


confinement = pytest.mark.parametrize(
    "confine",
    [False, pytest.param(True, marks=pytest.mark.needs("bwrap"))],
)


@confinement
def test_an_honest_agent_reads_asks_and_leaves_a_candidate(world, confine):
    reply = world.edit(
        f"""
        pages = pathlib.Path("README.md").read_text() + pathlib.Path("TASK.md").read_text()
        assert "KW_KERNEL" in pages and "be quick" in pages and "a lesson of old" in pages
        assert "return x * 2" in pathlib.Path("reference/double.py").read_text()
        left.write_text("def run(x):\\n    return x\\n")
        assert judge()["verdict"] == "rejected"
        left.write_text({KERNEL!r})
        assert judge()["verdict"] == "accepted"
        pathlib.Path("candidate/IDEA.txt").write_text("adds instead of multiplying\\nand more")
        """,
        confine=confine,
    )
    assert reply.failure == "" and reply.notes["ended"] == "done", world.transcript()
    (candidate,) = reply.proposals
    assert candidate.sources[0].text == KERNEL and candidate.entry == "kernel.py:run"
    assert (candidate.proposer, candidate.reason) == ("agent:scripted", "adds instead of multiplying")
    assert reply.notes["judged"] == 2
    asked = [json.loads(line) for line in (world.folder / "judged").read_text().splitlines()]
    assert asked == [
        ["judge", f"run:{world.run}", "--device", "cpu", "--baseline", "eager", "--store",
         str(world.folder / "store"), "-", "--json"],
    ]  # fmt: skip


def test_nothing_of_the_hidden_workloads_is_in_the_workspace(world):
    reply = world.edit("""
        for file in pathlib.Path(".").rglob("*"):
            if file.is_file():
                print(file.read_text())
    """)
    assert not reply.proposals
    hidden = [w for w in world.task.workloads if w.split != "search"]
    said = world.transcript()
    assert hidden and '"rows=4,columns=16"' in said
    assert not [w.name for w in hidden if f'"{w.name}"' in said]


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ('pathlib.Path("README.md").write_text("no rules")', "README.md"),
        ('pathlib.Path("reference/double.py").unlink()', "reference/double.py"),
        ('os.replace("judge", "old"); os.symlink("old", "judge")', "judge"),
    ],
)
def test_an_agent_that_edits_the_harness_has_worked_for_nothing(world, edit, named):
    reply = world.edit(f"left.write_text({KERNEL!r})\n{edit}")
    assert reply.proposals == () and named in reply.failure and "void" in reply.failure


def test_an_agent_that_hangs_is_killed_at_its_deadline(world):
    world.options |= {"agent_minutes": 0.01}
    assert world.edit("time.sleep(600)").notes["ended"] == "deadline"


@confinement
def test_what_an_agent_detaches_dies_with_it(world, confine):
    seconds = "61713" if confine else "61714"
    world.edit(f'subprocess.Popen(["sleep", "{seconds}"], start_new_session=True)', confine=confine)
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", seconds]]


def test_the_best_that_was_judged_counts_where_the_agent_is_cut_off_in_the_middle_of_the_next(world):
    (world.folder / "judge.py").write_text(GRADING)
    ready, said = world.folder / "ready", []
    reply = world.edit(
        f"""
        for factor in (2, 3, 1):
            left.write_text(f"def run(x):\\n    return x + x  # {{factor}}\\n")
            judge()
        left.write_text("def run(x):")
        pathlib.Path({str(ready)!r}).touch()
        time.sleep(600)
        """,
        cancelled=ready.exists,
        emit=said.append,
    )
    (best,) = reply.proposals
    assert "# 3" in best.sources[0].text and not reply.failure
    assert said[1] == "scripted asked the judge, 2 of 20: right, 3.00 times as fast" and len(said) == 3


def test_a_proposer_tells_why_there_is_nothing_and_does_not_send_the_agent_to_work_twice(world):
    with pytest.raises(ModelError, match="it says: Invalid API key"):
        list(world.proposer("print('Invalid API key'); sys.exit(1)").propose(world.request()))
    world.open(Budget(usd=1.0))
    proposer = world.proposer(f"left.write_text({KERNEL!r})", usd=0.75)
    (first,) = proposer.propose(world.request())
    (again,) = proposer.propose(world.request())
    assert again == first and len(world.agent.jobs) == 1
    with Calls(world.folder / "store") as calls:
        assert calls.spent_usd(world.run) == 0.75


def test_one_that_was_interrupted_is_sent_to_work_again(world):
    proposer = world.proposer("")
    for cancelled in (lambda: True, lambda: False):
        with pytest.raises(ModelError):
            list(proposer.propose(world.request(cancelled=cancelled)))
    assert len(world.agent.jobs) == 2


def test_an_interrupt_ends_the_agent_and_what_it_left_counts(world):
    ready = world.folder / "ready"
    script = f"""
        left.write_text({KERNEL!r})
        pathlib.Path({str(ready)!r}).touch()
        time.sleep(600)
    """
    reply = world.edit(script, cancelled=ready.exists)
    assert reply.notes["ended"] == "interrupted" and len(reply.proposals) == 1


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("sys.stdout.buffer.write(bytes(range(256)) * 99); sys.exit(3)", "should hold"),
        ("raise RuntimeError", "folder 'candidate/' should hold"),
        ('left.write_text("nothing to call")', "invalid syntax"),
        ('os.symlink("/etc/passwd", left)', "cannot be read"),
        ("os.mkfifo(left)", "cannot be read"),
        (
            'import shutil; shutil.rmtree("candidate"); os.symlink("/etc", "candidate")',
            "no folder candidate/",
        ),
    ],
)
def test_what_is_no_kernel_is_a_failure_in_words(world, script, failure):
    reply = world.edit(script)
    assert reply.proposals == () and failure in reply.failure


def test_a_cheat_in_the_candidate_is_only_a_candidate(world):
    cheat = "import torch\n\ndef run(x):\n    return torch.zeros_like(x)\n"
    reply = world.edit(f"""
        left.write_text({cheat!r})
        print(json.dumps({{"event": "result", "verdict": "accepted", "speedup": 99}}))
    """)
    (candidate,) = reply.proposals
    assert candidate.sources[0].text == cheat
    assert set(reply.notes) == {"agent", "ended", "exit_code", "judged", "usage"}


def test_requests_that_are_none_are_answered_and_the_number_is_limited(world):
    world.options |= {"agent_judgements": 1}
    reply = world.edit(f"""
        asked, answered = pathlib.Path(".judge/asked"), pathlib.Path(".judge/answered")
        (asked / "a.json").symlink_to("/etc/passwd")
        os.mkfifo(asked / "b.json")
        (asked / "c.json").write_text(json.dumps({{"../up.py": "x"}}))
        (asked / "d.json").write_text("[" * 100)
        for name in ("a", "b", "c", "d"):
            while not (answered / f"{{name}}.json").exists():
                time.sleep(0.02)
            assert "no request" in (answered / f"{{name}}.json").read_text()
        left.write_text("x")
        assert "defines none" in judge()["message"]
        left.write_text({KERNEL!r})
        assert judge()["verdict"] == "accepted"
        assert "all 1 judgements are used" in judge()["message"]
    """)
    assert reply.notes["ended"] == "done" and reply.notes["exit_code"] == 0, world.transcript()


def test_an_agent_gets_its_own_variables_and_its_transcript_holds_no_secret(world, monkeypatch):
    monkeypatch.setenv("PLANTED_API_KEY", "hunter2-hunter2")
    monkeypatch.setenv("OTHER_API_KEY", "not-for-this-one")
    world.edit("""
        assert "OTHER_API_KEY" not in os.environ
        print("my key is", os.environ["PLANTED_API_KEY"], "and sk-ant-abcdefghijklmnop")
    """)
    assert world.transcript().strip() == "my key is [secret] and [secret]"


@pytest.mark.needs("bwrap")
def test_a_confined_agent_finds_no_store_and_can_write_nowhere_else(world):
    outside = world.folder / "outside"
    reply = world.edit(
        f"""
        assert not list(pathlib.Path({str(world.folder / "store")!r}).iterdir())
        try:
            pathlib.Path({str(outside)!r}).write_text("x")
        except OSError:
            left.write_text({KERNEL!r})
        """,
        confine=True,
    )
    assert len(reply.proposals) == 1 and not outside.exists(), world.transcript()


def test_money_is_charged_and_capped(world):
    world.open(Budget(usd=2.0))
    assert world.edit("print('token token')", usd=0.5).usd == 0.5
    assert world.agent.jobs[0].usd == 2.0
    world.edit("", usd=0.25)
    assert world.agent.jobs[0].usd == 1.5
    with Calls(world.folder / "store") as calls:
        first, second = calls.of_run(world.run)
    assert (first.who, first.usd, first.usage) == ("agent:scripted", 0.5, {"output_tokens": 2})
    assert second.usd == 0.25


def test_what_ends_before_it_says_its_cost_takes_all_that_is_left_and_nobody_is_started_for_nothing(world):
    world.open(Budget(usd=2.0))
    assert world.edit("", usd=0.0).usd == 0, "it said that it cost nothing"
    said = []
    assert world.edit("", usd=None, emit=said.append).usd == 2.0
    assert said == ["scripted did not come to say its cost: all 2 USD left are charged"]
    with pytest.raises(SpentError, match="--usd 2 is spent"):
        world.edit("")
    assert world.agent.jobs == []


def test_an_agent_that_cannot_keep_to_a_cap_is_not_started_under_one(world):
    world.open(Budget(usd=2.0))
    agent = Scripted(world.folder / "agent.py")
    agent.says_usd = False
    with pytest.raises(InputError, match="does not say what it costs"):
        world.edit("", agent=agent)
    assert agent.jobs == []


def test_agents_are_found_by_name_or_taken_as_commands():
    assert make_agent("claude").name == "claude" and make_agent("codex").name == "codex"
    assert make_agent("true --task {prompt}").name == "command"
    with pytest.raises(NotFoundError, match="no agent is called 'nosuch-agent'"):
        make_agent("nosuch-agent")


def test_the_editor_and_the_proposer_keep_to_their_protocols():
    assert isinstance(AgentEditor(), Editor) and isinstance(AgentProposer(), Proposer)


def test_what_claude_says_of_its_cost_is_read_from_its_last_result():
    lines = [
        '{"type": "system"}',
        "noise",
        '{"type": "result", "total_cost_usd": 0.5, "usage": {"a": 1, "b": "x"}}',
    ]
    assert Claude().spend("\n".join(lines)) == Spend(0.5, {"a": 1})
    assert Claude().spend('{"type": "result", "total_cost_usd": "much"}') == Spend()
    assert Claude().spend("") == Spend()
