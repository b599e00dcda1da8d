"""Throttling of token guesses: a peer that showed several wrong tokens waits before it may show another.

The same wrong token again is no new guess, so a client with an outdated token, which
tries again and again, does not make others wait that come from the same address.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache

from mangrove.errors import InvalidInputError

__all__ = ["TokenThrottle"]

_WRONG_TOKENS_MAX: Final = 10
"""How many different wrong tokens a peer may show before it has to wait."""
_WAIT_MILLIS: Final = 60_000
_PEERS_MAX: Final = 10_000


@dataclass
class _Guesses:
    """The wrong tokens of one peer as digests, and when the last of them came."""

    last_at_millis: int = 0
    digests: set[bytes] = field(default_factory=set)


class TokenThrottle:
    """The wrong tokens of the last minute by peer; a limit of 0 throttles nobody, None is the usual one."""

    def __init__(self, now_millis: Callable[[], int], wrong_tokens_max: int | None = None) -> None:
        self._now_millis = now_millis
        self._wrong_tokens_max = _WRONG_TOKENS_MAX if wrong_tokens_max is None else wrong_tokens_max
        if self._wrong_tokens_max < 0:
            raise InvalidInputError(f"the limit is {wrong_tokens_max} wrong tokens; expected 0 or more")
        self._by_peer: LRUCache[str, _Guesses] = LRUCache(_PEERS_MAX)

    def record_wrong(self, peer: str, token: str | None) -> None:
        """Record a wrong token; None stands for one that nobody kept, which counts as different from all others."""
        if not self._wrong_tokens_max:
            return
        self._forget_if_over(peer)
        guesses = self._by_peer.setdefault(peer, _Guesses())
        number = str(len(guesses.digests))
        digest = hashlib.sha256(number.encode() if token is None else token.encode("utf-8", "replace")).digest()
        if digest not in guesses.digests:
            guesses.digests.add(digest)
            guesses.last_at_millis = self._now_millis()

    def retry_after_seconds(self, peer: str) -> int | None:
        """Return for how long the peer has to wait, or None if it may show a token now."""
        self._forget_if_over(peer)
        guesses = self._by_peer.get(peer)
        if guesses is None or len(guesses.digests) < self._wrong_tokens_max:
            return None
        left_millis = guesses.last_at_millis + _WAIT_MILLIS - self._now_millis()
        return max(1, min(-(-left_millis // 1_000), _WAIT_MILLIS // 1_000))

    def _forget_if_over(self, peer: str) -> None:
        guesses = self._by_peer.get(peer)
        # A clock that was set back must not make anybody wait for longer.
        if guesses is not None and not 0 <= self._now_millis() - guesses.last_at_millis < _WAIT_MILLIS:
            del self._by_peer[peer]
