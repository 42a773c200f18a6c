"""Seeds derived from names, so that every draw is reproducible and independent of scheduling order."""

from __future__ import annotations

from hashlib import blake2b


def derive_seed(*parts: str | int) -> int:
    """A 63-bit seed from any sequence of names and numbers; equal on every platform and run."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def derive_uniform(*parts: str | int) -> float:
    """A number in [0, 1) from the same kind of names."""
    return derive_seed(*parts) / float(1 << 63)
