"""Reservation of loopback ports for test servers."""

import socket
from contextlib import ExitStack

__all__ = ["reserve_ports"]


def reserve_ports(count: int) -> list[int]:
    """Return different ports of loopback that the system gives to nobody who asks for any, for a minute.

    A port that was merely free a moment ago may be taken when the server comes to it. So a connection is made and
    closed on each: what waits there for late packets keeps others away, but not a server that asks for this port and
    reuses addresses, as servers do.
    """
    with ExitStack() as held:
        listening = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in listening:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
            each.listen(1)
            with socket.create_connection(each.getsockname()) as calling:
                accepted, _ = each.accept()
                # Who hangs up first is who waits.
                accepted.close()
                calling.recv(1)
        return [each.getsockname()[1] for each in listening]
