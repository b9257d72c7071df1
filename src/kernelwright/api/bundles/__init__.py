"""Take candidates to another device, and bring back records that are decided here.

Task, Candidates ─▶ folder ─▶ (the device: verify, measure) ─▶ records ─▶ checked ─▶ decide ─▶ store

| file | where it runs |
|---|---|
| `_write.py` | here: writes the folder, with a wheel of this very Kernelwright |
| `_suite.py` | here: a folder of bundles, one for each problem of a suite's rows, and all of them back |
| `run_suite.py` | on the device: runs each bundle of such a folder in turn |
| `run.py` | on the device: sets up an environment without network, with the standard library alone |
| `_execute.py` | on the device: the same judge as everywhere, from the wheel |
| `_import.py` | here: checks what came back, decides with `measure.decide`, stores |

Covers: files changed on the way; candidates, tasks, baselines, seeds or devices other than asked; blocks left out;
decisions that the raw blocks do not support.
Does not cover: an owner of the device who makes up times and every hash with them.
"""

from ._execute import execute
from ._import import Imported, import_records
from ._manifest import Asked, Bundle
from ._suite import SuiteBundle, import_suite, is_suite, write_suite
from ._write import write

__all__ = [
    "Asked", "Bundle", "Imported", "SuiteBundle", "execute", "import_records", "import_suite", "is_suite", "write",
    "write_suite",
]  # fmt: skip
