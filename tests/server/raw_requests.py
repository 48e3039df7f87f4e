"""Requests written to a socket by hand."""

import socket

from tests.server.running import TOKEN, Running


def connected(server: Running, request: str, body: bytes = b"", receive_buffer: int | None = None) -> socket.socket:
    """A connection on which a request was sent, with the head's lines ended and the token added."""
    peer = socket.socket()
    if receive_buffer is not None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    host, port = server.url.removeprefix("http://").split(":")
    peer.settimeout(30)
    peer.connect((host, int(port)))
    head = f"{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
    peer.sendall(head.encode() + body)
    return peer
