"""Run every bundle of this folder on the device, one after the other. Needs torch and the standard library, no network.

python3 run.py [--device cuda:1]

What is done is not done again: remove a folder's `records` to repeat it.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DONE = Path("records") / "manifest.json"


def main() -> int:
    """Run what has no records yet, and say what came of each; the exit code is the last that was not 0."""
    try:
        names = [str(one["folder"]) for one in json.loads((HERE / "suite.json").read_text())["bundles"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(
            f"run.py: {HERE / 'suite.json'} cannot be read ({error}); copy the bundle here again",
            file=sys.stderr,
        )
        return 2
    code = 0
    for number, name in enumerate(names, 1):
        if (HERE / name / DONE).is_file():
            print(f"[{number}/{len(names)}] {name}: has records", flush=True)
            continue
        print(f"[{number}/{len(names)}] {name}", flush=True)
        done = subprocess.run([sys.executable, str(HERE / name / "run.py"), *sys.argv[1:]], check=False)
        code = done.returncode or code
    left = [name for name in names if not (HERE / name / DONE).is_file()]
    if left:
        print(f"run.py: {len(left)} of {len(names)} have no records, the first is {left[0]}", file=sys.stderr)
    else:
        print(f"all {len(names)} have records; bring {HERE} back and `kernelwright import` it")
    return code


if __name__ == "__main__":
    sys.exit(main())
