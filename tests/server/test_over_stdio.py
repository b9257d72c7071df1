"""The real server in a process of its own, before the SDK's client: a task described, a wrong kernel refused."""

import json
import os
import socket
import subprocess
import sys

import anyio
import pytest
from tests.tools import require

require("mcp")
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

pytestmark = pytest.mark.slow

TASK = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 8, "columns": 64}])
def softmax(x):
    return torch.softmax(x, dim=-1)
"""
WRONG = "import torch\n\ndef run(x):\n    return torch.zeros_like(x)\n"
SERVE = ("-m", "kernelwright", "mcp", "--store")


CHARACTERS = 3 * 800
"""An agent pays for both answers: at least three characters make a token of such text."""


def told(result):
    assert not result.is_error, result.content[0].text
    return json.loads(result.content[0].text)


def test_an_agent_is_told_the_task_and_what_is_wrong(tmp_path):
    (tmp_path / "softmax.py").write_text(TASK)
    program = StdioServerParameters(
        command=sys.executable, args=[*SERVE, "store"], cwd=tmp_path, env={**os.environ}
    )

    async def main():
        with anyio.fail_after(300):
            async with Client(stdio_client(program)) as client:
                wrong = {"task": "softmax.py", "source": WRONG, "file": "wrong.py"}
                described = await client.call_tool("describe_task", {"task": "softmax.py"})
                judged = await client.call_tool("judge", wrong)
                assert len(described.content[0].text) + len(judged.content[0].text) <= CHARACTERS
                return told(described), told(judged), told(await client.call_tool("status", {}))

    described, judged, standing = anyio.run(main)
    assert {w["split"] for w in described["workloads"]} == {"search"} and described["hidden_workloads"] > 0
    assert (judged["verdict"], judged["decision"]) == ("rejected", "rejected")
    assert [f["check"] for f in judged["findings"]] == ["correct"] and " checks passed" in judged["checks"]
    assert "reason" not in judged  # the finding says it
    assert standing["run"] == judged["run"] == standing["runs"][0]["run"]


def test_the_same_tools_are_served_on_a_loopback_port(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, *SERVE, str(tmp_path), "--port", str(port)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as server:

        async def main():
            with anyio.fail_after(120):
                while True:
                    try:
                        stream = await anyio.connect_tcp("127.0.0.1", port)
                        await stream.aclose()
                        break
                    except OSError:
                        assert server.poll() is None
                        await anyio.sleep(0.1)
                async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                    return [tool.name for tool in (await client.list_tools()).tools]

        try:
            assert "judge" in anyio.run(main)
        finally:
            server.terminate()
