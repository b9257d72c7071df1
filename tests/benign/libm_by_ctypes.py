"""Honest: calls libm through ctypes."""

import ctypes
import ctypes.util

import torch

libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
libm.sqrt.restype, libm.sqrt.argtypes = ctypes.c_double, [ctypes.c_double]
ROOT = libm.sqrt(0.5)


def run(x):
    return 0.5 * x * (1 + torch.erf(x * ROOT))


TASK = "gelu"
