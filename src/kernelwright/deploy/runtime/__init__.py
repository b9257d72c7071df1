"""What an exported package carries with it: loaders and the guarded dispatcher.

These files import torch and the standard library (and `tvm_ffi` or `triton` where a kernel needs it),
never Kernelwright, because they are copied as they are into every exported package.
"""
