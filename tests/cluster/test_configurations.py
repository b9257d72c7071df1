"""The configuration files of docs/cluster.md: they parse, and every command in them is one."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.tools import require

from kernelwright.cli import _app

TEXT = Path("docs/cluster.md").read_text()
BLOCKS = re.findall(r"^```(slurm|yaml)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
SLURM = next(text for kind, text in BLOCKS if kind == "slurm")
KUBERAY, SKYPILOT = (yaml.safe_load(text) for kind, text in BLOCKS if kind == "yaml")
SCRIPTS = {"slurm": SLURM, "skypilot": SKYPILOT["run"], "skypilot-setup": SKYPILOT["setup"]}


def words_after(script, program):
    """Return the words of the one command of a program, with what a shell would put in as `x`."""
    joined = re.sub(r"\$\{?\w+\}?", "x", re.sub(r"\$\([^)]*\)", "x", script.replace("\\\n", " ")))
    words = next(
        words for line in joined.splitlines() if program in (words := shlex.split(line, comments=True))
    )
    return words[words.index(program) + 1 :]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_shell_takes_the_scripts(name):
    done = subprocess.run(["bash", "-n"], input=SCRIPTS[name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("script", [SLURM, SKYPILOT["run"], KUBERAY["spec"]["entrypoint"]])
def test_the_program_takes_the_commands(script):
    words = words_after(script, "kernelwright")
    _, bound, _ = _app.app.parse_args(words, print_error=False, exit_on_error=False)
    assert bound.arguments["clustered"].cluster.partition(":")[0] in ("auto", "x")


@pytest.mark.parametrize("script", [SLURM, SKYPILOT["run"]])
def test_ray_takes_its_commands(script):
    require("ray")
    from ray.scripts.symmetric_run import symmetric_run

    words = words_after(script, "ray")
    assert words[0] == "symmetric-run"
    options = {name for option in symmetric_run.params for name in option.opts}
    assert {w for w in words[1 : words.index("--")] if w.startswith("--")} <= options


def test_the_pods_have_what_kuberay_and_the_cpu_manager_want():
    spec = KUBERAY["spec"]["rayClusterSpec"]
    assert (KUBERAY["apiVersion"], KUBERAY["kind"]) == ("ray.io/v1", "RayJob")
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        wanted = container["resources"]
        assert wanted["requests"] == wanted["limits"] and float(wanted["limits"]["cpu"]).is_integer()
        mounted = {m["name"] for m in container.get("volumeMounts", ())}
        assert mounted == {v["name"] for v in group["template"]["spec"].get("volumes", ())}
    assert all(isinstance(v, str) for g in (spec["headGroupSpec"],) for v in g["rayStartParams"].values())
    assert all(g["minReplicas"] <= g["replicas"] <= g["maxReplicas"] for g in spec["workerGroupSpecs"])
