"""Problem → Profile: where the time of the reference goes, and what is worth changing."""

from ._profile import OpShare, Profile, SubmoduleShare, profile

__all__ = ["OpShare", "Profile", "SubmoduleShare", "profile"]
