"""The 32-bit Murmur3 hash with seed 0, by which values are put into buckets."""

from typing import Final

__all__ = ["murmur3"]

_FIRST: Final = 0xCC9E2D51
_SECOND: Final = 0x1B873593
_MASK: Final = 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """Return the hash of `data` as an unsigned integer.

    >>> hex(murmur3(b"hello"))
    '0x248bfa47'
    """
    state = 0
    tail_start = len(data) & ~3
    for start in range(0, tail_start, 4):
        state ^= _scrambled(int.from_bytes(data[start : start + 4], "little"))
        state = (state << 13 | state >> 19) & _MASK
        state = (state * 5 + 0xE6546B64) & _MASK
    state ^= _scrambled(int.from_bytes(data[tail_start:], "little")) ^ len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _scrambled(block: int) -> int:
    block = block * _FIRST & _MASK
    return (block << 15 | block >> 17) * _SECOND & _MASK
