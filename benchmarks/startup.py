"""How long a user waits before anything happens: `import kernelwright` and `kernelwright --help`.

    python -m benchmarks.startup

Median of five fresh processes each after one warm-up; the interpreter's own start is shown as well.
Targets: the import at most 0.1 s, the help at most 0.5 s.
"""

import statistics
import subprocess
import sys
import time

RUNS = 5
COMMANDS = {
    "python -c pass": ([sys.executable, "-c", "pass"], None),
    "import kernelwright": ([sys.executable, "-c", "import kernelwright"], 0.1),
    "kernelwright --help": ([sys.executable, "-m", "kernelwright", "--help"], 0.5),
}


def median_s(command: list[str]) -> float:
    """Return the median seconds of a fresh process, the warm-up not counted."""
    times = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def main() -> None:
    """Print the table."""
    print(f"{'command':24} {'median s':>9} {'target':>7}")
    for name, (command, target) in COMMANDS.items():
        limit = f"{target:.1f}" if target else ""
        print(f"{name:24} {median_s(command):9.3f} {limit:>7}")


if __name__ == "__main__":
    main()
