"""Builds for less than this machine has, where that differs from what it has: else two builds would test the same."""

from kernelwright.devices import detect

FEATURES = {"-mno-avx512f": "avx512f", "-mno-avx512bf16": "avx512_bf16", "-mno-avx2": "avx2",
            "-mno-amx-tile": "amx", "-mno-amx-bf16": "amx_bf16", "-mno-amx-int8": "amx_int8"}  # fmt: skip
"""What a flag takes away, as `Device.vector_units` names it."""
EIGHT = ("-mno-avx512f",)
FOUR = ("-mno-avx512f", "-mno-avx2", "-mno-fma", "-mno-avx")
"""Flags for vectors of eight and of four floats."""
NO_PAIRS = ("-mno-avx512bf16",)
"""Flags for products of bfloat16 without pairs."""


def narrower(flags: tuple[str, ...]) -> bool:
    """Tell whether flags take away something that this machine has.

    Example:
        >>> narrower(())
        False
    """
    units = detect("cpu").vector_units
    return any(FEATURES.get(flag) in units for flag in flags)


def differing(builds: dict) -> dict:
    """Keep, of builds by name, the first, which is this machine's own, and those that have less than it.

    A build is its flags, or begins with them.
    """
    own, *others = builds
    flags_of = {n: b[0] if b and isinstance(b[0], tuple) else b for n, b in builds.items()}
    return {own: builds[own], **{n: builds[n] for n in others if narrower(flags_of[n])}}
