"""What needs torch: reading a model that exists, applying a plan, and the hooks around a run."""

from __future__ import annotations

from ._describe import Description, describe

__all__ = ["Description", "describe"]
