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

from kernelwright.languages._process import run_tool

from .executor import ask, cases

SIDES = ("g++", "clang++", "llvmlite")
_UNCHECKED = "-fno-sanitize=all"  # some have it on


def serve(side: str, clang: list[str]) -> None:
    """Answer as `benchmarks.executor` does, with the kernels compiled by a side, then say what compiling took."""
    from kernelwright.executor import _native

    from . import executor

    spent: dict[str, float] = {}

    def build(source: str, folder: Path, into: Path) -> None:
        (folder / "kernel.cpp").write_text(source)
        flags, include = [*_native._FLAGS, "-O2"], f"-I{_native.NATIVE}"
        if side == "llvmlite":
            _by_llvmlite([*clang, *flags, include], folder, into, spent)
            return
        compiler = ["g++"] if side == "g++" else [*clang, _UNCHECKED]
        spent["compile_s"] = spent.get("compile_s", 0.0) + _ran(
            [*compiler, *flags, include, "kernel.cpp", "-o", str(into)], folder
        )

    _native._build_kernel = build
    executor.serve("executor, unchecked")
    print(json.dumps(spent), flush=True)


def _by_llvmlite(clang: list[str], folder: Path, into: Path, spent: dict[str, float]) -> None:
    import llvmlite.binding as llvm

    words = [word for word in clang if word != "-shared"]
    asked = [
        *words, _UNCHECKED, "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", "kernel.cpp", "-o", "kernel.ll"
    ]  # fmt: skip
    spent["intermediate_s"] = spent.get("intermediate_s", 0.0) + _ran(asked, folder)
    begun = time.thread_time()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly((folder / "kernel.ll").read_text())
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, reloc="pic",
        codemodel="default",
    )  # fmt: skip
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    (folder / "kernel.o").write_bytes(machine.emit_object(module))
    took_s = time.thread_time() - begun + _ran(["g++", "-shared", "kernel.o", "-o", str(into)], folder)
    spent["compile_s"] = spent.get("compile_s", 0.0) + took_s


def _ran(words: list[str], folder: Path) -> float:
    """Run a compiler and return its processor seconds."""
    done = run_tool(words, deadline_s=600, folder=folder)
    if done.returncode:
        raise SystemExit(done.output)
    return done.processor_s


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
