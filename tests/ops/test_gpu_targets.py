"""What is compiled for GPUs that are not here is what forms launch, for each vendor as it would be there."""

import os
import subprocess
import sys

import pytest
from benchmarks.ops.gpu_targets import GPUS, table

CODE = """
from benchmarks.ops.gpu_targets import launches_of
for backend in ("cuda", "hip"):
    for one in launches_of("attention", "attention_decode", "float32", backend):
        print(one.kernel, one.constants.get("PRECISION"), one.signature["acc" if one.kernel == "joined" else "q"])
"""


def test_the_worst_of_an_ops_kernels_is_told():
    row = {"family": "f", "op": "o", "registers": 9, "spill_bytes": 0, "shared_bytes": 1024}
    rows = [{**row, "gpu": gpu["name"]} for gpu in GPUS]
    rows += [{**row, "gpu": "sm_80", "registers": 255, "spill_bytes": 8}, {**rows[-1], "error": "ValueError"}]
    assert table(rows).splitlines()[2] == "| f o | 255, 1, **8** | 9, 1 | 9, 1 | 9, 1 | does not compile |"


@pytest.mark.long
@pytest.mark.needs("triton")
def test_products_of_float32_are_asked_for_as_a_vendor_has_them():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, check=True, timeout=600,
        env={k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"},
    )  # fmt: skip
    found = done.stdout.split("\n")[:-1]
    assert found == ["share tf32x3 *fp32", "joined None *fp32", "share ieee *fp32", "joined None *fp32"]
