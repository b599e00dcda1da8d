"""Rate limit on wrong tokens by peer.

A repeated wrong token counts once, so that a client with an outdated token does not block
other clients of the same address.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache

from mangrove.errors import InvalidInputError

__all__ = ["TokenThrottle"]

_WRONG_TOKENS_MAX: Final = 10
"""How many different wrong tokens a peer may send before it must wait."""
_WAIT_MILLIS: Final = 60_000
_PEERS_MAX: Final = 10_000


@dataclass
class _Guesses:
    """The digests of the wrong tokens of one peer, and the time of the last."""

    last_at_millis: int = 0
    digests: set[bytes] = field(default_factory=set)


class TokenThrottle:
    """The wrong tokens of the last minute by peer; a limit of 0 disables the throttle, None is the default."""

    def __init__(self, now_millis: Callable[[], int], wrong_tokens_max: int | None = None) -> None:
        self._now_millis = now_millis
        self._wrong_tokens_max = _WRONG_TOKENS_MAX if wrong_tokens_max is None else wrong_tokens_max
        if self._wrong_tokens_max < 0:
            raise InvalidInputError(f"the limit is {wrong_tokens_max} wrong tokens; expected 0 or more")
        self._by_peer: LRUCache[str, _Guesses] = LRUCache(_PEERS_MAX)

    def record_wrong(self, peer: str, token: str | None) -> None:
        """Record a wrong token; None is an unknown token, which counts as a new one each time."""
        if not self._wrong_tokens_max:
            return
        self._remove_expired(peer)
        guesses = self._by_peer.setdefault(peer, _Guesses())
        number = str(len(guesses.digests))
        digest = hashlib.sha256(number.encode() if token is None else token.encode("utf-8", "replace")).digest()
        if digest not in guesses.digests:
            guesses.digests.add(digest)
            guesses.last_at_millis = self._now_millis()

    def retry_after_seconds(self, peer: str) -> int | None:
        """Return the seconds that the peer must wait, or None if it may send a token now."""
        self._remove_expired(peer)
        guesses = self._by_peer.get(peer)
        if guesses is None or len(guesses.digests) < self._wrong_tokens_max:
            return None
        left_millis = guesses.last_at_millis + _WAIT_MILLIS - self._now_millis()
        return max(1, min(-(-left_millis // 1_000), _WAIT_MILLIS // 1_000))

    def _remove_expired(self, peer: str) -> None:
        guesses = self._by_peer.get(peer)
        # A clock that was set back must not extend the wait.
        if guesses is not None and not 0 <= self._now_millis() - guesses.last_at_millis < _WAIT_MILLIS:
            del self._by_peer[peer]
