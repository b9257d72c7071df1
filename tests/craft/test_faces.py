"""The command, a model over the wire, and the tools over MCP."""

import json

import anyio
import pytest
from tests.tools import require

from kernelwright.cli import main
from kernelwright.craft import Session, find_backend, find_task
from kernelwright.testing import ScriptedModel


def said(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "relu.asm"
    path.write_text([*find_backend("tessera").programs(find_task("relu")).values()][-1])
    return str(path)


def test_the_command_lists_shows_and_prints_the_manual(capsys):
    assert main(["craft", "tasks", "--json"]) == 0
    assert said(capsys)[-1]["tasks"] >= 20
    assert main(["craft", "show", "softmax", "--isa", "made-2", "--json"]) == 0
    assert "address of x" in said(capsys)[-1]["contract"]
    assert main(["craft", "manual", "--isa", "made-2"]) == 0
    assert capsys.readouterr().out.startswith("# The made-2 accelerator")


def test_the_command_judges_measures_and_traces(capsys, program):
    assert main(["craft", "judge", "relu", program, "--json"]) == 0
    assert said(capsys)[-1]["score"] > 1
    assert main(["craft", "measure", "relu", program, "--json"]) == 0
    assert said(capsys)[-1]["ratio"] > 1
    assert main(["craft", "trace", "relu", program, "--start", "5", "--count", "3", "--json"]) == 0
    assert [s["step"] for s in said(capsys)[-1]["steps"]] == [5, 6, 7]
    assert main(["craft", "judge", "add", program]) == 1
    assert main(["craft", "assemble", program]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "sofmax"], "did you mean 'softmax'"),
        (["judge", "softmax"], "expected TASK FILE"),
        (["judge", "softmax", "nosuch.asm"], "cannot be read"),
        (["show", "softmax", "--isa", "x86"], "no instruction set"),
        (["assemble", "."], "cannot be read"),
    ],
)
def test_wrong_words_are_told_in_a_sentence(capsys, words, message):
    assert main(["craft", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_model_over_the_wire_writes_a_program(capsys, tmp_path):
    texts = [*find_backend("made-9").programs(find_task("relu")).values()]
    with ScriptedModel([f"```asm\n{texts[0]}```", f"Faster:\n```asm\n{texts[-1]}```", "DONE"]) as server:
        to = tmp_path / "best.asm"
        words = ["craft", "run", "relu", "--isa", "made-9", "--model", server.name(), "--to", str(to)]
        assert main([*words, "--store", str(tmp_path / "store"), "--json"]) == 0
        assert "# The made-9 accelerator" in server.asked[0].text
        assert "baseline" in server.asked[1].last
    assert said(capsys)[-1]["score"] > 1
    assert to.read_text() == texts[-1]


def test_the_tools_over_mcp():
    require("mcp")
    from mcp.client import Client

    from kernelwright.server.craft import MANUAL_URI, make_craft_server

    task, backend = find_task("relu"), find_backend("made-7")
    text = [*backend.programs(task).values()][-1]

    async def talk():
        async with Client(make_craft_server(Session(task, backend))) as client:

            async def call(name, **arguments):
                return json.loads((await client.call_tool(name, arguments)).content[0].text)

            tools = {t.name for t in (await client.list_tools()).tools}
            manual = (await client.read_resource(MANUAL_URI)).contents[0].text
            wrong = await call("write", text="nonsense")
            right = [
                await call("write", text=text),
                await call("run"),
                await call("measure"),
                await call("submit"),
            ]
            return tools, manual, wrong, right, await call("trace", start=2, count=2)

    tools, manual, wrong, right, trace = anyio.run(talk)
    assert tools == {"write", "assemble", "run", "trace", "measure", "submit"}
    assert manual == backend.manual()
    assert wrong["errors"][0][0] == 1
    assert all(answer["ok"] for answer in right)
    assert right[-1]["score"] > 1
    assert len(trace["steps"]) == 2
