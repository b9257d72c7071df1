"""Calls from a process of their own: the same answers and failures as from here, whatever dies or is given up."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelwright.errors import MissingToolError, ModelError
from kernelwright.llm import FREE, CallFailed, FailureKind, Limits, Message, Models
from kernelwright.llm._calling import Called, Caller
from kernelwright.llm._models import make_provider
from kernelwright.testing import Hangs, Refuses, Says, ScriptedModel, Sends

HELLO = [Message("system", "Be terse.", stable=True), Message("user", "Hello?")]
KEY = "sk-planted-0123456789"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
PIECE = b'data: {"choices": [{"delta": {"content": "so "}}]}\n\n'

OWNER = """
import sys
from kernelwright.llm import Limits, Message, check_models
from kernelwright.llm._calling import Called, Caller
from kernelwright.llm._models import make_provider

check_models({"models": (sys.argv[1],)}, None)
caller = Caller()
called = Called(make_provider(sys.argv[1]), (), caller)
print(called.complete([Message("user", "first")], None, Limits()).text, "openai" in sys.modules, flush=True)
print(caller._process._process.pid, flush=True)
called.complete([Message("user", "second")], None, Limits())
"""

RUDE = """
import os, time

class Rude:
    def __init__(self, name):
        self.name = str(name)

    def complete(self, messages, schema, limits):
        print("said by a provider")
        if messages[-1].text == "sleep":
            time.sleep(60)
        raise ValueError("the key " + os.environ["RUDE_API_KEY"] + " is wrong")

def make(name, settings, price):
    return Rude(name)
"""


@pytest.fixture(scope="module")
def caller():
    caller = Caller()
    yield caller
    caller.close()


def called(caller, server):
    return Called(make_provider(server.name()), (), caller)


def failure(provider, **limits):
    with pytest.raises(CallFailed) as caught:
        provider.complete(HELLO, None, Limits(**{"deadline_s": 30, **limits}))
    return caught.value


def pid(caller):
    return caller._process._process.pid


def until(happened):
    ends_s = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < ends_s, "it did not happen"
        time.sleep(0.01)


def gone(process):
    """Tell whether a process has ended, waited for or not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


class Server:
    """Sends pieces of an answer without end, or nothing at all, until the client hangs up."""

    def __init__(self, *, silent=False):
        self._silent, self._listener = silent, socket.create_server(("127.0.0.1", 0))
        self.asked, self.left = [], []
        threading.Thread(target=self._listen, daemon=True).start()

    def name(self):
        return f"local:m@http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self):
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client):
        with client:
            said = client.recv(1 << 16)
            while b"}" not in said:
                said += client.recv(1 << 16)
            self.asked.append(said)
            with suppress(OSError):
                if self._silent:
                    client.recv(1)
                else:
                    client.sendall(STREAM)
                    while True:
                        client.sendall(PIECE)
                        time.sleep(0.01)
        self.left.append(said)


@pytest.fixture(params=[False, True], ids=["streams", "silent"])
def server(request):
    server = Server(silent=request.param)
    yield server
    server.close()


def test_the_answer_is_the_same_as_from_here(caller):
    said = Says("42 \u2028 \x00 é", input_tokens=1000, output_tokens=20, cached_tokens=600, stop="length")
    schema = {"type": "object"}
    with ScriptedModel([said]) as server:
        here = make_provider(server.name(), {"prices": ("1,10",)})
        there = Called(here, ("1,10",), caller)
        limits = Limits(output_tokens=77)
        assert there.complete(HELLO, schema, limits) == here.complete(HELLO, schema, limits)
        first, second = (asked.body for asked in server.asked)
    assert first == second and first["max_tokens"] == 77 and there.price == here.price


@pytest.mark.parametrize(
    "turn",
    [
        Refuses(429, "slower", headers={"retry-after": "7"}), Refuses(401), Refuses(404), Refuses(500),
        Sends(b"garbage"), Says("cut" * 99, breaks_off=True),
    ],
    ids=["busy", "key", "refused", "server", "garbage", "cut"],
)  # fmt: skip
def test_a_failure_is_the_same_as_from_here(caller, turn):
    with ScriptedModel([turn]) as server:
        here, there = failure(make_provider(server.name())), failure(called(caller, server))
    assert str(there) == str(here) and vars(there) == vars(here)


def test_a_silent_server_is_left_at_the_deadline(caller):
    with ScriptedModel([Hangs()]) as server:
        failed = failure(called(caller, server), deadline_s=0.5)
    assert (failed.kind, failed.billed) == (FailureKind.TIMEOUT, True)


def test_calls_are_under_way_at_the_same_time_and_connections_used_again(caller):
    together = threading.Barrier(4)

    def script(asked):
        together.wait(timeout=60)
        return asked.last

    with ScriptedModel(script) as server, ThreadPoolExecutor(4) as threads:
        provider = called(caller, server)
        for _ in range(2):
            said = threads.map(lambda n: provider.complete([Message("user", n)], None, Limits()).text, "abcd")
            assert list(said) == [*"abcd"]
        assert len(caller._process.idle) == 4


def test_a_process_that_dies_in_mid_call_may_have_been_billed_and_is_started_again(caller):
    with ScriptedModel(lambda asked: Hangs() if len(server.asked) == 1 else "again") as server:
        provider = called(caller, server)
        with ThreadPoolExecutor(1) as thread:
            failed = thread.submit(failure, provider)
            until(lambda: server.asked)
            first = pid(caller)
            os.kill(first, signal.SIGKILL)
            assert failed.result().again and failed.result().billed
            assert "ended in mid-call" in str(failed.result())
        assert provider.complete(HELLO, None, Limits()).text == "again" and pid(caller) != first


def test_a_process_that_died_while_nothing_was_asked_is_not_noticed(caller):
    with ScriptedModel(["yes"]) as server:
        provider = called(caller, server)
        provider.complete(HELLO, None, Limits())
        os.kill(pid(caller), signal.SIGKILL)
        until(lambda: not caller._process.alive)
        assert provider.complete(HELLO, None, Limits()).text == "yes"


def test_a_server_sees_that_a_call_is_given_up(caller, server):
    provider = called(caller, server)
    failed = failure(provider, cancelled=lambda: bool(server.asked))
    assert (failed.kind, failed.billed) == (FailureKind.STOPPED, True)
    until(lambda: server.left)


def test_a_call_is_given_up_and_the_others_go_on(caller):
    server = Server()
    with ThreadPoolExecutor(2) as threads:
        wanted = [True, True]
        provider = called(caller, server)
        calls = [
            threads.submit(failure, provider, cancelled=lambda n=n: not wanted[n], output_tokens=1 + n)
            for n in range(2)
        ]
        until(lambda: len(server.asked) == 2)
        wanted[0] = False
        assert calls[0].result().kind is FailureKind.STOPPED
        until(lambda: server.left)
        assert b'"max_tokens":1,' in server.left[0] and len(server.left) == 1 and not calls[1].done()
        wanted[1] = False
    server.close()


def test_it_ends_with_its_owner_however_that_ends(tmp_path):
    with ScriptedModel(lambda asked: "yes" if asked.last == "first" else Hangs()) as server:
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, server.name()], stdout=subprocess.PIPE, text=True
        )
        assert owner.stdout.readline() == "yes False\n", "the SDK is imported in the process alone"
        process = int(owner.stdout.readline())
        until(lambda: len(server.asked) == 2)
        assert not gone(process)
        owner.kill()
        owner.communicate()
        until(lambda: gone(process))


def test_it_ends_when_it_is_closed_or_forgotten():
    for end in (lambda caller: caller.close(), lambda caller: None):
        caller = Caller()
        caller.start()
        process = pid(caller)
        assert os.getpgid(process) != os.getpgid(0), "an interrupt at the terminal is not for it"
        end(caller)
        del caller
        assert gone(process)


def test_the_models_of_a_run_are_called_from_it(calls, run):
    with ScriptedModel(["yes"]) as server:
        models = Models({"models": (server.name(),), "prices": ("1,2",)}, calls, run, None)
        answer = models.get().complete(HELLO, purpose="p")
        process = pid(models._caller)
        models.close()
    assert answer.cost_usd == pytest.approx((100 * 1 + 50 * 2) / 1e6) and gone(process)


@pytest.fixture
def rude(tmp_path, monkeypatch):
    """Make a provider of somebody else's."""
    about = tmp_path / "rude-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rude\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[kernelwright.providers]\nrude = rude:make\n")
    (tmp_path / "rude.py").write_text(RUDE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("RUDE_API_KEY", KEY)
    caller = Caller()
    yield Called(SimpleNamespace(name="rude:m", price=FREE), (), caller)
    caller.close()


def test_what_a_provider_raises_is_told_without_keys_and_what_it_prints_is_no_result(rude, capfd):
    with pytest.raises(ModelError, match=r"rude:m: ValueError: the key \*\*\* is wrong \(rude.py, line 12\)"):
        rude.complete(HELLO, None, Limits())
    rude._caller.close()
    assert capfd.readouterr().out == ""


def test_a_provider_that_does_not_keep_to_its_deadline_is_left(rude, monkeypatch):
    monkeypatch.setattr("kernelwright.llm._calling._GRACE_S", 0.0)
    with pytest.raises(CallFailed, match="no answer within 0 s") as caught:
        rude.complete([Message("user", "sleep")], None, Limits(deadline_s=0.3))
    assert (caught.value.kind, caught.value.billed) == (FailureKind.TIMEOUT, True)


@pytest.mark.parametrize(
    ("name", "package"), [("local:m@http://10.0.0.1/v1", "openai"), ("anthropic:m", "anthropic")]
)
def test_an_sdk_that_is_not_installed_is_told_before_anything_is_asked(monkeypatch, name, package):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingToolError, match=rf"pip install 'kernelwright\[{package}\]'"):
        make_provider(name, {"prices": ("1,2",)})
