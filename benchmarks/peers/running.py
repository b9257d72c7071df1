"""Run one of the other systems in an environment of its own, on a scripted model and an evaluator."""

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .model import Served, served

PACKAGES = ("openevolve==0.4.0", "shinka-evolve==0.0.7")
PEERS = ("openevolve", "shinka")
BLOCK = "# EVOLVE-BLOCK-START\n{program}\n\n# EVOLVE-BLOCK-END\n"
"""What they want around what may be changed."""
ANSWER = """IDEA: step {n}
<NAME>
step
</NAME>
<DESCRIPTION>
step {n}
</DESCRIPTION>
<CODE>
```python
{program}```
</CODE>
"""
"""An answer that all read: a whole program."""
_CONFIG = """
max_iterations: {questions}
diff_based_evolution: false
llm: {{api_base: "{url}/v1", api_key: none, models: [{{name: scripted, weight: 1.0}}]}}
evaluator: {{parallel_evaluations: 1, cascade_evaluation: false}}
"""


def peers_python(folder: Path) -> Path:
    """Return the Python of the peers' environment, made where it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


def run_peer(
    system: str,
    python: Path,
    folder: Path,
    *,
    script: Callable[[int], str],
    initial: str,
    evaluator: Path,
    questions: int,
    environment: Mapping[str, str],
) -> Served:
    """Let a system ask so many questions, one at a time, beginning with a program; return when it asked."""
    (folder / "initial.py").write_text(initial)
    (folder / "evaluator.py").write_text(evaluator.read_text())
    with served(script) as model:
        (folder / "config.yaml").write_text(_CONFIG.format(questions=questions, url=model.url))
        runner = Path(__file__).parent / "shinka_run.py"
        commands: dict[str, Sequence[str]] = {
            "openevolve": (
                str(python.parent / "openevolve-run"), "initial.py", "evaluator.py", "--config", "config.yaml",
                "--iterations", str(questions), "--output", "out",
            ),
            "shinka": (str(python), str(runner), str(folder), model.url, str(questions)),
        }  # fmt: skip
        keys = {"OPENAI_API_KEY": "none", "LOCAL_OPENAI_API_KEY": "none", "SHINKA_PRICING_MODE": "offline"}
        done = subprocess.run(
            commands[system],
            cwd=folder,
            env={**os.environ, **keys, **environment},
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
    if done.returncode:
        print(f"{system} ended with {done.returncode}:\n{done.stderr[-2000:]}", file=sys.stderr)
    return model
