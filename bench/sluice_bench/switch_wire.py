"""The protocol of PipeSwitch's published program, as offload_switch and the servers of bench/switch speak it.

    request    u32 length, name ("resnet152_inference", "resnet152_training"); u32 length, data
    reply      4 bytes: FNSH or FAIL
    end        a request whose name has length 0

Numbers are in the machine's byte order.  Data is float32, NCHW; a request for training has none.
"""
import socket
import struct
import time

LIMIT_S = 60  # of every call on a socket
MAX_NAME, MAX_DATA = 1 << 10, 1 << 30
DONE, FAILED = b"FNSH", b"FAIL"
END = struct.pack("=I", 0)


class WireError(Exception):
    pass


def request_bytes(task, data=b""):
    name = task.encode()
    return b"".join((struct.pack("=I", len(name)), name, struct.pack("=I", len(data)), data))


def receive_into(sock, view):
    """False: the peer closed the connection before the first byte."""
    done = 0
    while done < len(view):
        num = sock.recv_into(view[done:])
        if num == 0:
            if done:
                raise WireError(f"the connection ended after {done} of {len(view)} bytes")
            return False
        done += num
    return True


def _receive(sock, size):
    data = bytearray(size)
    return bytes(data) if receive_into(sock, memoryview(data)) else None


def _number(sock, most, what):
    data = _receive(sock, 4)
    if data is None:
        return None
    value, = struct.unpack("=I", data)
    if value > most:
        raise WireError(f"{what} of {value} bytes")
    return value


def read_task(sock):
    """The name of the next request; None: there is none."""
    size = _number(sock, MAX_NAME, "a name")
    if not size:
        return None
    name = _receive(sock, size)
    if name is None:
        raise WireError("the connection ended before a name")
    return name.decode("ascii", "replace")


def read_size(sock):
    """Bytes of data, which follow the name."""
    size = _number(sock, MAX_DATA, "data")
    if size is None:
        raise WireError("the connection ended after a name")
    return size


class Client:
    """One connection."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request):
        """Seconds from the first byte sent to the reply, as the published client counts them: the
        connection is there."""
        start = time.perf_counter()
        self.sock.sendall(request)
        reply = _receive(self.sock, 4)
        seconds = time.perf_counter() - start
        if reply != DONE:
            raise WireError(f"the server replied {reply!r}")
        return seconds

    def ask_logits(self, request):
        """The outputs, as bytes of float32: a request for NAME_logits, which offload_switch alone has;
        u32 length and logits follow its FNSH."""
        self.ask(request)
        size = _number(self.sock, MAX_DATA, "logits")
        logits = _receive(self.sock, size) if size else None
        if not logits:
            raise WireError("a reply without logits")
        return logits

    def close(self):
        try:
            self.sock.sendall(END)
        except OSError:
            pass  # the server closed it
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
