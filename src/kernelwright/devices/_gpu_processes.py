"""Which other processes have a GPU open, as far as its driver tells."""

import shutil
import subprocess

import psutil

_LIMIT_S = 10.0


def others_on(device: str) -> int:
    """Return how many processes that are not of this one's tree compute on `cuda:N`.

    0 where the driver does not say, or names none of ours: inside of a container it may count in numbers of its own.

    Example:
        >>> others_on("cpu")
        0
    """
    driver = shutil.which("nvidia-smi")
    if not device.startswith("cuda") or driver is None:
        return 0
    number = device.partition(":")[2] or "0"
    words = [driver, f"--id={number}", "--query-compute-apps=pid", "--format=csv,noheader"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    found = {int(line) for line in said.split() if line.isdigit()}
    root = psutil.Process()
    known = found & {root.pid, *(child.pid for child in root.children(recursive=True))}
    return len(found - known) if known else 0
