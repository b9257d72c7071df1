"""The adapters of `claude` and `codex` against stand-ins that know their flags and print what they print."""

import json
import sys

import pytest

from kernelwright.propose.agent import make_agent
from kernelwright.records import Budget
from kernelwright.store import Calls

from .test_agent import KERNEL, World

CLAUDE = """
words.add_argument("prompt")
words.add_argument("--print", action="store_true", required=True)
words.add_argument("--output-format", choices=["text", "json", "stream-json"], required=True)
words.add_argument("--verbose", action="store_true", required=True)  # stream-json asks for it
words.add_argument("--allowedTools")
words.add_argument("--strict-mcp-config", action="store_true")
words.add_argument("--model")
words.add_argument("--max-budget-usd", type=float)
given = words.parse_args()
assert {"Bash", "Write"} <= set(given.allowedTools.split(","))
"""
CODEX = """
words.add_argument("command", choices=["exec"])
words.add_argument("prompt")
words.add_argument("--json", action="store_true", required=True)
words.add_argument("--skip-git-repo-check", action="store_true", required=True)  # the workspace is no repository
words.add_argument("--sandbox", choices=["read-only", "workspace-write", "danger-full-access"], required=True)
words.add_argument("--cd", "-C", type=pathlib.Path, required=True)
words.add_argument("--model")
given = words.parse_args()
assert given.sandbox == "workspace-write" and given.cd.samefile(".") and not sys.stdin.read()
"""
PROGRAM = """#!{python}
import argparse, pathlib, sys
words = argparse.ArgumentParser(allow_abbrev=False)
{flags}
assert "README.md" in given.prompt
{work}
print({said!r})
"""
USAGE = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 5, "service_tier": "standard"}
ASSISTANT = {
    "type": "assistant", "session_id": "s", "parent_tool_use_id": None,
    "message": {"role": "assistant", "content": [{"type": "text", "text": "done"}], "usage": USAGE},
}  # fmt: skip
INIT = {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"], "mcp_servers": []}
RESULT = {
    "type": "result", "subtype": "success", "is_error": False, "duration_ms": 7, "num_turns": 2, "result": "done",
    "session_id": "s", "total_cost_usd": 0.25, "usage": USAGE, "permission_denials": [],
}  # fmt: skip
NO_KEY = RESULT | {"is_error": True, "total_cost_usd": 0, "result": "Invalid API key · Please run /login"}
OVER_BUDGET = RESULT | {"subtype": "error_max_budget_usd", "result": "", "total_cost_usd": 0.5}
BEGUN = [{"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}]
MESSAGE = {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "done"}}
TURN = {"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 5}}
DURING = RESULT | {"subtype": "error_during_execution", "result": None, "errors": ["Overloaded", "gave up"]}
FAILED = {"type": "turn.failed", "error": {"message": "You've hit your usage limit."}}
UNREACHED = [
    {"type": "error", "message": "Reconnecting... 1/5"},
    {"type": "error", "message": "401 Unauthorized"},
]
LEAVES = f'pathlib.Path("candidate/kernel.py").write_text({KERNEL!r})'


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Let a stand-in of an agent's program work once, with so much money; return the reply and the ledger's line."""

    def go(name, flags, lines, *, work="", usd=None):
        program = tmp_path / "bin" / name
        program.parent.mkdir()
        said = "\n".join(map(json.dumps, lines))
        program.write_text(PROGRAM.format(python=sys.executable, flags=flags, work=work, said=said))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        world = World(tmp_path)
        world.open(Budget(usd=usd))
        reply = world.edit("", agent=make_agent(name))
        with Calls(tmp_path / "store") as calls:
            return reply, calls.of_run(world.run)[-1]

    return go


@pytest.mark.parametrize(
    ("name", "flags", "lines", "cost", "usage"),
    [
        ("claude", CLAUDE, [INIT, ASSISTANT, RESULT], 0.25,
         {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 5}),
        ("codex", CODEX, [*BEGUN, MESSAGE, TURN], 0.0,
         {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 5}),
    ],
)  # fmt: skip
def test_its_flags_are_taken_and_its_words_are_read(stand_in, name, flags, lines, cost, usage):
    reply, call = stand_in(name, flags, lines, work=LEAVES, usd=2.0 if name == "claude" else None)
    assert reply.failure == "" and reply.proposals[0].sources[0].text == KERNEL
    assert (reply.usd, call.usd, call.usage) == (cost, cost, usage)


@pytest.mark.parametrize(
    ("name", "flags", "lines", "said"),
    [
        ("claude", CLAUDE, [INIT, NO_KEY], "Invalid API key"),
        ("claude", CLAUDE, [INIT, OVER_BUDGET], "error_max_budget_usd"),
        ("claude", CLAUDE, [INIT, DURING], "Overloaded; gave up"),
        ("codex", CODEX, [*BEGUN, FAILED], "You've hit your usage limit."),
        ("codex", CODEX, [*BEGUN, *UNREACHED], "401 Unauthorized"),
    ],
)
def test_what_it_says_went_wrong_is_the_failure(stand_in, name, flags, lines, said):
    reply, _ = stand_in(name, flags, lines)
    assert not reply.proposals and f"it says: {said}" in reply.failure


def test_a_trouble_that_was_got_over_is_no_failure(stand_in):
    reply, _ = stand_in("codex", CODEX, [*BEGUN, *UNREACHED, TURN])
    assert "says" not in reply.failure


def test_one_that_knows_none_of_our_flags_is_quoted(stand_in):
    old = "sys.exit(\"error: unknown option '--max-budget-usd'\")\n"
    reply, _ = stand_in("claude", old, [])
    assert "it says: error: unknown option '--max-budget-usd'" in reply.failure


def test_no_key_costs_nothing_under_a_cap(stand_in):
    assert stand_in("claude", CLAUDE, [INIT, NO_KEY], usd=2.0)[1].usd == 0


def test_claude_is_told_what_is_left_and_charged_what_it_took_though_that_is_more(stand_in):
    spends = "assert given.max_budget_usd == 0.4, given"
    _, call = stand_in("claude", CLAUDE, [INIT, OVER_BUDGET], work=spends, usd=0.4)
    assert call.usd == 0.5
