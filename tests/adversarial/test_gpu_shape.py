"""The exploits that need a GPU have the form of the others and can be imported without one."""

from kernelwright.languages import get_language
from kernelwright.records import Candidate, SourceFile
from kernelwright.sandbox import Payload
from kernelwright.verify import check_names

from .exploit import HERE, read_exploit
from .judge import MEASURED

FOLDER = HERE.parent / "gpu" / "adversarial"
EXPLOITS = [read_exploit(path) for path in sorted((FOLDER / "exploits").glob("*.py"))]
LOADER = """
import importlib.util, pathlib

def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module

modules = [load(path) for path in pathlib.Path(__file__).parent.glob("gpu/*.py")]
assert len(modules) >= 20 and all(callable(m.run) for m in modules)

def run(x): ...
"""


def test_each_names_a_class_a_task_and_checks_that_exist():
    known = {*check_names(), *MEASURED, "loads", "runs"}
    assert len(EXPLOITS) >= 20
    assert len({e.number for e in EXPLOITS}) >= 12
    assert not {e.name: e.expect - known for e in EXPLOITS if not e.expect or e.expect - known}
    assert not [e.name for e in EXPLOITS if not e.task_path.exists() or not e.kind]


def test_each_is_in_the_table():
    table = (FOLDER / "README.md").read_text()
    rows = {
        row.split("|")[1].split()[0]: row for row in table.splitlines() if row.startswith("| ") and "`" in row
    }
    assert not [e.name for e in EXPLOITS if f"`{e.name}.py`" not in rows.get(str(e.number), "")]


def test_each_can_be_imported_without_a_gpu(judge):
    files = [SourceFile(path=f"gpu/{e.path.name}", text=e.path.read_text()) for e in EXPLOITS]
    loader = SourceFile(path="loader.py", text=LOADER)
    candidate = Candidate(sources=(loader, *files), language="torch", entry="loader.py:run")
    build = get_language("torch").build(candidate)
    with judge.pool.worker(Payload(candidate, build.artefact)) as worker:
        assert worker.alive
