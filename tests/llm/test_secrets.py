"""Keys stay with the judge: no worker and no compiler is given one. Stores and reports: `propose/llm/test_runs.py`."""

import os
import subprocess
import sys

from kernelwright.config import Settings, without_secrets
from kernelwright.sandbox._environment import environment

KEY = "sk-planted-0123456789"
NAMES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "LOCAL_API_KEY")

JUDGE = """
import sys
import torch
from kernelwright.config import Settings
from kernelwright.records import Candidate, SourceFile, TensorSpec
from kernelwright.sandbox import Payload, Pool

KERNEL = '''
import glob, os, torch
def look(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
def run(x):
    seen = b"".join(look(p) for p in glob.glob("/proc/[0-9]*/environ")) + repr(os.environ).encode()
    return x * 0 + float(b"sk-planted" in seen)
'''
assert "sk-planted" in open("/proc/self/environ").read()
with Pool(Settings.from_environment(), arena_bytes=1 << 24) as pool:
    source = SourceFile(path="kernel.py", text=KERNEL)
    candidate = Candidate(sources=(source,), language="torch", entry="kernel.py:run")
    with pool.worker(Payload(candidate)) as worker:
        spec = (TensorSpec(name="y", shape=(4,), dtype="float32"),)
        number = worker.bind((pool.arena.place(torch.ones(4)),), spec)
        worker.call([number])
        print("found" if worker.fetch().outputs[0].sum() else "not found")
"""


def test_a_worker_and_a_compiler_are_given_no_key(monkeypatch):
    for name in NAMES:
        monkeypatch.setenv(name, KEY)
    assert KEY in Settings.from_environment().keys.values(), "the judge has it"
    assert KEY not in str(environment(2, "cache"))
    assert KEY not in str(without_secrets())


def test_a_worker_that_looks_everywhere_finds_no_key(tmp_path):
    env = {**os.environ, **dict.fromkeys(NAMES, KEY), "KERNELWRIGHT_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", JUDGE], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "not found", done.stderr[-2000:]
