"""Everything here needs an NVIDIA GPU that torch can use; without one nothing is collected.

The same paths are tested without a GPU by fakes and cross-compilation in the other folders.
"""

import torch

if not torch.cuda.is_available():
    collect_ignore_glob = ["*"]
