"""Model → regions, plan, patched model: whole models, measured end to end.

Target ─▶ capture ─▶ regions ─▶ plan ─▶ optimize each region ─▶ patch ─▶ verdict on the whole
"""

from ._capture import Capture, Captured, capture_model
from ._target import Loaded, ModelTarget, Whole, is_model, load_model

__all__ = ["Capture", "Captured", "Loaded", "ModelTarget", "Whole", "capture_model", "is_model", "load_model"]
