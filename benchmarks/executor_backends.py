"""What compiles the executor's translated kernels best: g++, clang++ or LLVM through llvmlite, on the same C++.

    python -m benchmarks.executor_backends --clang "clang++" [--repeats 5] [--out FILE]

Each is a process of its own with a cache of its own, and compiles the kernel alone: the engine is g++'s for all. clang
gives llvmlite the intermediate code, which a translation of our own into LLVM would have to write; that step is told
apart. Then the three alternate, and the least processor time of a launch of each is compared. Needs llvmlite and a
clang++ whose LLVM is not newer than llvmlite's (wheels `llvmlite` and `ziglang`: `--clang "python -m ziglang c++"`).
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .executor import ask, cases

SIDES = ("g++", "clang++", "llvmlite")


def serve(side: str, clang: list[str]) -> None:
    """Answer as `benchmarks.executor` does, with the kernels compiled by a side, then say what compiling took."""
    from kernelwright.executor import _native

    from . import executor

    spent: dict[str, float] = {}

    def build(source: str, folder: Path, into: Path) -> None:
        (folder / "kernel.cpp").write_text(source)
        begun = os.times()
        if side == "g++":
            _native._compile(
                ["-O2", f"-I{_native.NATIVE}", str(folder / "kernel.cpp"), "-o", str(into)], folder
            )
        elif side == "clang++":
            words = [*clang, *_flags(), "-shared", "kernel.cpp", "-o", str(into)]
            subprocess.run(words, cwd=folder, check=True)
        else:
            _by_llvmlite(clang, folder, into, spent)
        spent["compile_s"] = spent.get("compile_s", 0.0) + _since(begun)

    _native._build_kernel = build
    executor.serve("executor, unchecked")
    print(json.dumps(spent), flush=True)


def _by_llvmlite(clang: list[str], folder: Path, into: Path, spent: dict[str, float]) -> None:
    import llvmlite.binding as llvm

    begun = os.times()
    words = [*clang, *_flags(), "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm"]
    subprocess.run([*words, "kernel.cpp", "-o", "kernel.ll"], cwd=folder, check=True)
    spent["intermediate_s"] = spent.get("intermediate_s", 0.0) + _since(begun)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly((folder / "kernel.ll").read_text())
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2, reloc="pic", codemodel="default"
    )
    tuned = llvm.create_pipeline_tuning_options(speed_level=2)
    llvm.create_pass_builder(machine, tuned).getModulePassManager().run(
        module, llvm.create_pass_builder(machine, tuned)
    )
    (folder / "kernel.o").write_bytes(machine.emit_object(module))
    subprocess.run(["g++", "-shared", "kernel.o", "-o", str(into)], cwd=folder, check=True)


def _flags() -> list[str]:
    from kernelwright.executor import _native

    return [
        *(flag for flag in _native._FLAGS if flag != "-shared"),
        "-O2",
        "-fno-sanitize=all",
        f"-I{_native.NATIVE}",
    ]


def _since(begun: Any) -> float:
    return sum(b - a for a, b in zip(begun[:4], os.times()[:4], strict=True))


def main() -> int:
    """Compare and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clang", default="clang++", help="words that call clang++")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        serve(asked.side, shlex.split(asked.clang))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        processes = {
            side: subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "benchmarks.executor_backends", "--side", side, "--clang",
                 asked.clang],
                env={**os.environ, "KERNELWRIGHT_CACHE": str(Path(folder, side))},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            ) for side in SIDES
        }  # fmt: skip
        rows = []
        for name in cases():
            for process in processes.values():
                ask(process, name)
            rounds = [{side: ask(p, name) for side, p in processes.items()} for _ in range(asked.repeats)]
            for side in SIDES:
                least = min(r[side][1] for r in rounds)
                over = min(r["g++"][1] for r in rounds) / least
                error = rounds[0][side][2]
                print(
                    f"{name:26} {side:9} {least * 1e3:8.1f} ms of a processor, {over:5.2f} x g++; error {error:.1e}"
                )
                rows.append({"case": name, "side": side, "cpu_s": least, "over_gpp": over, "error": error})
        for side, process in processes.items():
            assert process.stdin and process.stdout
            process.stdin.close()
            spent = json.loads(process.stdout.read())
            process.wait()
            print(f"{side:9} compiled {len(cases())} kernels in", {k: round(v, 2) for k, v in spent.items()})
            rows.append({"case": "compiling", "side": side, **spent})
    if asked.out:
        asked.out.write_text("".join(json.dumps({"date": time.strftime("%F"), **row}) + "\n" for row in rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
