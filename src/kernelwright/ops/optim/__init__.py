"""Steps of optimizers: AdamW, Lion and Adafactor, for many parameters at once, in place.

| name | what it is |
|---|---|
| `AdamW`, `Lion`, `Adafactor` | optimizers with torch's conventions |
| `adamw_`, `lion_`, `adafactor_` | their steps over lists of tensors, in place |
| `adamw`, `lion`, `adafactor` | the ops of one parameter, which return what was moved |

Computed in float32 and rounded once; the state of bfloat16 parameters is float32. What the kernel does not serve, such
as a parameter that is not contiguous, runs the reference.
"""

from ._ops import KERNEL, adafactor, adamw, lion
from ._optimizers import Adafactor, AdamW, Lion
from ._steps import adafactor_, adamw_, lion_

__all__ = [
    "KERNEL",
    "Adafactor",
    "AdamW",
    "Lion",
    "adafactor",
    "adafactor_",
    "adamw",
    "adamw_",
    "lion",
    "lion_",
]
