"""With what a figure was measured: date, command, device and software; and the exit where there is no GPU."""

import datetime
import platform
import sys

import torch


def environment(module: str) -> dict[str, str]:
    """Say what the figures of `python -m module` were measured with; exit 4 without a GPU."""
    if not torch.cuda.is_available():
        print(
            "no CUDA device: torch.cuda.is_available() is false; run this where there is one", file=sys.stderr
        )
        raise SystemExit(4)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join([f"python -m {module}", *sys.argv[1:]]),
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "python": platform.python_version(),
    }
