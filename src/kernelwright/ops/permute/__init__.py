"""Contiguous copies of permuted tensors, with tiles that read and write whole cache lines, for `optimize`."""
