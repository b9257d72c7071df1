"""The MCP server before the SDK's own client: what the tools ask of the program, and what they answer."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.tools import require

require("mcp")
from mcp.client import Client

from kernelwright.propose.agent import _judge
from kernelwright.server import _command
from kernelwright.server.mcp import GUIDE_URI, make_server

PROGRAM = """
import atexit, json, os, pathlib, sys, time

home = pathlib.Path(sys.argv[1])
arguments = sys.argv[2:]
with (home / "calls").open("a") as log:
    log.write(json.dumps(arguments) + "\\n")

def emit(event, **data):
    print(json.dumps({"event": event, **data}), flush=True)

def answer(asked):
    path = asked["candidate"]
    emit("verify", message="looking at " + pathlib.Path(path).name)
    if "hangs" in pathlib.Path(path).read_text():
        (home / "hanging").write_text(str(os.getpid()))
        time.sleep(600)
    if "error" in pathlib.Path(path).read_text():
        return emit("error", message="it is no candidate")
    decision = "inconclusive" if asked["screen"] else "improved"
    emit("result", run="r1", candidate="c1", decision=decision)

@atexit.register
def end():
    time.sleep(0.1)  # longer than it takes to be told to end
    with (home / "ended").open("a") as log:
        log.write(arguments[0] + "\\n")

match arguments[0]:
    case "judge":
        emit("run", run="r1")
        emit("ready")
        for line in sys.stdin:
            answer(json.loads(line))
    case "describe" if arguments[1] == "nosuch.py":
        emit("error", message="task file 'nosuch.py' does not exist; expected a .py or .json file")
        sys.exit(2)
    case "describe" if arguments[1] == "dies.py":
        sys.exit(7)
    case "export":
        emit("result", run=arguments[1], kernel=arguments[3])
    case "show":
        for number in range(3):
            emit("evaluation", number=number)
        emit("result", run=arguments[1])
    case command:
        emit("row", of=command)
        emit("result", of=command)
"""


class World:
    """A server whose program is a script, and the client before it."""

    def __init__(self, folder):
        self.folder = folder
        self.server, self.tools = make_server(folder / "store")

    def calls(self):
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    def run(self, steps):
        async def main():
            async with Client(self.server) as client:
                with anyio.fail_after(120):
                    return await steps(client)

        try:
            return anyio.run(main)
        finally:
            self.tools.close()


@pytest.fixture
def world(monkeypatch, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(_command, "PROGRAM", (sys.executable, str(tmp_path / "program.py"), str(tmp_path)))
    return World(tmp_path)


def told(result):
    assert not result.is_error, result.content[0].text
    return json.loads(result.content[0].text)


def refused(result):
    assert result.is_error
    sentence = result.content[0].text
    assert "\n" not in sentence and "Traceback" not in sentence
    return sentence


def test_every_tool_says_what_it_is_for_and_is_in_the_guide(world):
    async def steps(client):
        tools = (await client.list_tools()).tools
        guide = (await client.read_resource(GUIDE_URI)).contents[0].text
        return tools, guide

    tools, guide = world.run(steps)
    assert [tool.name for tool in tools] == [
        "describe_task", "bound", "profile", "search_lessons", "judge", "submit", "export", "optimize", "status",
        "list_runs", "show_run",
    ]  # fmt: skip
    for tool in tools:
        assert tool.description and f"`{tool.name}`" in guide
        assert "ctx" not in tool.input_schema["properties"]


def test_a_tool_is_a_command(world):
    async def steps(client):
        described = told(await client.call_tool("describe_task", {"task": "task.py", "max_elements": 100}))
        await client.call_tool("profile", {"task": "task.py", "counters": True})
        rows = told(await client.call_tool("search_lessons", {"query": "softmax"}))
        shown = told(await client.call_tool("show_run", {"run": "last", "top": 2}))
        return described, rows, shown

    described, rows, shown = world.run(steps)
    store = ["--store", str(world.folder / "store"), "--json"]
    assert world.calls() == [
        ["describe", "task.py", "--max-elements", "100", *store],
        ["profile", "task.py", "--counters", *store],
        ["lessons", "search", "softmax", *store],
        ["show", "last", *store],
    ]
    assert described == {"event": "result", "of": "describe"}
    assert rows == {"lessons": [{"event": "row", "of": "lessons"}]}
    assert [e["number"] for e in shown["evaluations"]] == [0, 1]


@pytest.mark.parametrize("program", [_command.PROGRAM, _judge.PROGRAM])
def test_files_of_the_folder_are_no_modules_of_the_program(program, tmp_path):
    (tmp_path / "random.py").write_text("raise SystemExit('mine')")
    command = [*program, "lessons", "--help"]
    assert subprocess.run(command, cwd=tmp_path, stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_commands_end_by_themselves_once_they_have_answered(world):
    async def steps(client):
        await client.call_tool("describe_task", {"task": "task.py"})
        await client.call_tool("describe_task", {"task": "nosuch.py"})
        await client.call_tool("judge", {"task": "a.py", "source": "x", "file": "k.py"})
        await client.call_tool("judge", {"task": "b.py", "source": "x", "file": "k.py"})

    world.run(steps)
    assert (world.folder / "ended").read_text().splitlines() == ["describe", "describe", "judge", "judge"]


def test_judgements_share_one_warm_judge_and_its_run(world):
    heard = []

    async def hear(progress, total, message):
        heard.append((progress, message))

    async def steps(client):
        source = {"task": "task.py", "source": "fast", "file": "kernel.cpp"}
        first = told(await client.call_tool("judge", source, progress_callback=hear))
        standing = told(await client.call_tool("status", {}))
        last = told(await client.call_tool("submit", source))
        return first, standing, last

    first, standing, last = world.run(steps)
    assert first["decision"] == "inconclusive" and last["decision"] == "improved"
    assert last["kernel"] == str(world.folder / "store" / "kernels" / "r1")
    assert (standing["run"], standing["judged"], standing["judge"]) == ("r1", 1, "warm")
    assert [call[0] for call in world.calls()] == ["judge", "runs", "export"]
    assert any("looking at kernel.cpp" in message for _, message in heard)
    assert [p for p, _ in heard] == sorted(p for p, _ in heard)


def test_a_cancelled_judgement_dies_and_the_next_goes_on_with_the_run(world):
    async def steps(client):
        async with anyio.create_task_group() as group:

            async def hang():
                await client.call_tool("judge", {"task": "task.py", "source": "hangs", "file": "a.py"})

            group.start_soon(hang)
            while not (world.folder / "hanging").exists():
                await anyio.sleep(0.02)
            group.cancel_scope.cancel()
        pid = int((world.folder / "hanging").read_text())
        while alive(pid):
            await anyio.sleep(0.02)
        return told(await client.call_tool("judge", {"task": "task.py", "source": "fast", "file": "a.py"}))

    assert world.run(steps)["candidate"] == "c1"
    first, second = world.calls()
    assert "--run" not in first and second[second.index("--run") + 1] == "r1"


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("judge", {"task": "t.py"}, "give either `candidate`"),
        (
            "judge",
            {"task": "t.py", "candidate": "a.py", "source": "x", "file": "a.py"},
            "give either `candidate`",
        ),
        ("judge", {"task": "t.py", "source": "x", "file": "../a.py"}, "plain file name"),
        ("judge", {"task": "t.py", "sorce": "x"}, "judge takes no 'sorce'; it takes task, candidate"),
        ("judge", {"task": "t.py", "source": "error", "file": "a.py"}, "it is no candidate"),
        ("judge", {}, "judge cannot use its arguments (task: Field required"),
        ("optimize", {"task": "t.py", "minutes": -1}, "minutes: Input should be greater than 0, given -1"),
        ("describe_task", {"task": "nosuch.py"}, "task file 'nosuch.py' does not exist; expected"),
        ("describe_task", {"task": "--help"}, "is a flag"),
        ("describe_task", {"task": "dies.py"}, "ended with exit code 7 and no result"),
        ("nosuch", {}, "no tool is called 'nosuch'; there are bound, describe_task"),
    ],
)
def test_what_is_wrong_is_one_sentence(world, tool, arguments, sentence):
    async def steps(client):
        return refused(await client.call_tool(tool, arguments))

    assert sentence in world.run(steps)
