"""What it costs to look for the layout of a kernel's weights where none is to be found.

    python -m benchmarks.weight_layouts

prints processor seconds for 12 weights of 768 by 768, each drawn anew, against as many tensors that hold none of them.
"""

import json
import time

import torch

from kernelwright.tasks._packed import packings

_WEIGHTS, _SIZE = 12, 768


def main() -> None:
    """Print the row."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    weights, others = (
        {f"{name}{i}": torch.randn(_SIZE, _SIZE) for i in range(_WEIGHTS)} for name in ("weight", "other")
    )
    began = time.process_time()
    found, _ = packings(weights, others)
    row = {
        "what": "layouts of weights", "weights": _WEIGHTS, "size": _SIZE, "found": len(found),
        "cpu_s": round(time.process_time() - began, 2), "command": "python -m benchmarks.weight_layouts",
    }  # fmt: skip
    print(json.dumps(row))


if __name__ == "__main__":
    main()
