"""HTTP/2 frame by frame, as an attacker speaks it: RFC 9113, with no rule kept but by choice."""
import socket
import ssl
import struct

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
TIMEOUT_S = 60


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """An HPACK literal that enters no table, without Huffman codes."""
    name, value = name.encode(), value.encode()
    assert len(name) < 127 and len(value) < 127
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request_headers(path):
    return b"".join(literal(name, value) for name, value in (
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"),
        ("te", "trailers"), ("content-type", "application/grpc")))


def grpc_message(message):
    return struct.pack(">BI", 0, len(message)) + message


def field(number, value):
    """A protobuf field: an int or bytes, below 128 (bytes: any length)."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    size, length = len(value), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + value


class Connection:
    """One connection to `address` (HOST:PORT), from `source` if that is given; `wrap` makes a socket
    of TLS of a plain one."""

    def __init__(self, address, source=None, preface=PREFACE + frame(SETTINGS), wrap=None):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection(
            (host, int(port)), timeout=TIMEOUT_S, source_address=(source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if wrap:
            self.socket = wrap(self.socket)
        self.received = b""
        self.next_stream = 1
        self.send(preface)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def try_send(self, data):
        """False once the peer has cut the connection."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            return False

    def read_frame(self):
        """(kind, flags, stream, payload); None at the connection's end."""
        while True:
            if len(self.received) >= 9:
                size = int.from_bytes(self.received[:3], "big")
                if len(self.received) >= 9 + size:
                    kind, flags, stream = struct.unpack(">BBI", self.received[3:9])
                    payload = self.received[9:9 + size]
                    self.received = self.received[9 + size:]
                    return kind, flags, stream, payload
            try:
                more = self.socket.recv(65536)
            except (ConnectionResetError, ssl.SSLError):
                return None
            if not more:
                return None
            self.received += more

    def wait_for_end(self):
        """Reads until the peer has closed the connection."""
        while self.read_frame():
            pass

    def open_call(self, path, message=None):
        """Begins a call; its stream's number.  Without a message the call stays open."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        self.send(frame(HEADERS, END_HEADERS, stream, request_headers(path)))
        if message is not None:
            self.send(frame(DATA, END_STREAM, stream, grpc_message(message)))
        return stream

    def call(self, path, message=b""):
        """A unary call: the messages of the answer, joined; None if the connection ended first."""
        stream = self.open_call(path, message)
        data = b""
        while True:
            got = self.read_frame()
            if not got:
                return None
            kind, flags, of, payload = got
            if kind in (SETTINGS, PING) and not flags & ACK:
                self.send(frame(kind, ACK, 0, payload if kind == PING else b""))
            elif kind == DATA and of == stream:
                data += payload
            if of == stream and kind in (DATA, HEADERS) and flags & END_STREAM:
                return data

    def is_serving(self):
        """Does the server's health check say that it serves?"""
        return self.call("/grpc.health.v1.Health/Check") == grpc_message(b"\x08\x01")
