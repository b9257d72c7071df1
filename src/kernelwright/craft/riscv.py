"""RISC-V with vectors under qemu."""


class RiscV: ...
