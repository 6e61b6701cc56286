#!/usr/bin/env python3
"""A TCP proxy that harms what it forwards, the same way for the same seed.

    with ChaosProxy("127.0.0.1:50051", "do=cut,after=50k..4m", "do=flip,rate=1e-6", seed=3) as proxy:
        client(proxy.address)

    chaos_proxy.py TARGET [--listen HOST:PORT] [--seed N] [RULE...]

A rule is fields separated by ','; all rules that a connection meets apply to it.  A number may be a
range, LOW..HIGH: drawn for each connection by the seed.  k and m are 1e3 and 1e6.

    do=cut        after so many bytes (after=N) the connection ends: how=rst (the default) or fin
    do=stall      after so many bytes nothing goes on for seconds=T, or for ever
    do=throttle   rate=N bytes/s, of all connections together
    do=flip       one bit of every 1/rate bytes on average (rate=1e-6), or of the byte at=N
    do=mute       accepts, reads and never answers
    do=refuse     ends the connection as soon as it is accepted: how=rst or fin
    do=reorder    waits for of=N connections, or seconds=T (1), and opens them in a drawn order

    dir=up|down|both   towards the target, away from it, each direction by itself (the default)
    first=N   not the connections before the Nth (1 is the first)
    most=N    no more than N connections
    every=N   only every Nth connection
"""
import argparse
import heapq
import itertools
import random
import selectors
import socket
import struct
import sys
import threading
import time

CHUNK = 256 * 1024  # read at once; what a direction holds at most
UP, DOWN = "up", "down"
NEVER = float("inf")
FIELDS = {"do", "after", "seconds", "rate", "at", "of", "how", "dir", "first", "most", "every"}
KINDS = {"cut", "stall", "throttle", "flip", "mute", "refuse", "reorder"}


def _number(text):
    scale = {"k": 1e3, "m": 1e6}.get(text[-1:].lower(), 1)
    return float(text[:-1] if scale != 1 else text) * scale


class Rule:
    """One rule, read; ValueError says what is wrong with it."""

    def __init__(self, text):
        fields = dict(field.split("=", 1) for field in text.split(","))
        unknown = set(fields) - FIELDS
        if unknown or fields.get("do") not in KINDS:
            raise ValueError(f"cannot read {sorted(unknown) or 'do='} of the rule '{text}'")
        self.kind = fields["do"]
        self.how = fields.get("how", "rst")
        self.directions = {"up": (UP,), "down": (DOWN,), "both": (UP, DOWN)}[
            fields.get("dir", "both")]
        self.first = int(fields.get("first", 1))
        self.most = int(fields["most"]) if "most" in fields else NEVER
        self.every = int(fields.get("every", 1))
        self.ranges = {name: tuple(map(_number, fields[name].split("..")))
                       for name in ("after", "seconds", "rate", "at", "of") if name in fields}
        self.met = 0
        self.allowance = {UP: 0.0, DOWN: 0.0}  # of a throttle: bytes that may go now
        self.filled_at = time.monotonic()

    def meets(self, index):
        """Whether it applies to this connection, counted from 1; asked once for each."""
        if index < self.first or (index - self.first) % self.every or self.met >= self.most:
            return False
        self.met += 1
        return True

    def draw(self, name, rng, default):
        low_high = self.ranges.get(name)
        return rng.uniform(low_high[0], low_high[-1]) if low_high else default


class _Flow:
    """One direction of a connection: at most one chunk waits to be sent."""

    def __init__(self, direction, source, sink):
        self.direction, self.source, self.sink = direction, source, sink
        self.waiting = memoryview(b"")
        self.seen = 0  # bytes taken from the source
        self.cut_at, self.cut_how = NEVER, "rst"
        self.stalls = []  # (at byte, seconds), the next one last
        self.flips = []  # [rule's rate, its random numbers, byte of the next flip]
        self.throttles = []
        self.is_paused = self.is_at_end = self.is_shut = False

    def add(self, rule, rng):
        after = int(rule.draw("after", rng, 0))
        if rule.kind == "cut" and after < self.cut_at:
            self.cut_at, self.cut_how = after, rule.how
        elif rule.kind == "stall":
            self.stalls.append((after, rule.draw("seconds", rng, NEVER)))
            self.stalls.sort(reverse=True)
        elif rule.kind == "throttle":
            self.throttles.append(rule)
        elif rule.kind == "flip" and "at" in rule.ranges:
            self.flips.append([0, rng, int(rule.draw("at", rng, 0))])
        elif rule.kind == "flip":
            rate = rule.draw("rate", rng, 1e-6)
            self.flips.append([rate, rng, after + int(rng.expovariate(rate))])

    def room(self):
        """How many bytes may be read before a rule has its turn."""
        limit = min(CHUNK, self.cut_at - self.seen)
        return min(limit, self.stalls[-1][0] - self.seen) if self.stalls else limit

    def flip(self, data):
        """Flips the bits that are due in data, which begins at self.seen; how many."""
        count = 0
        for flip in self.flips:
            while flip[2] < self.seen + len(data):
                data[flip[2] - self.seen] ^= 1 << flip[1].randrange(8)
                count += 1
                flip[2] = flip[2] + 1 + int(flip[1].expovariate(flip[0])) if flip[0] else NEVER
        return count


class _Connection:
    def __init__(self, index, client):
        self.index, self.client, self.server = index, client, None
        self.flows = {}
        self.is_open = True
        self.events = {}  # of each socket, as registered


class ChaosProxy:
    """Listens from the start; forwards between start() and stop(), or as a context manager.

    `counts` has what was done: connections, cuts, stalls, flips, and the bytes up and down.  All
    methods may be called from any thread.
    """

    def __init__(self, target, *rules, seed=0, listen="127.0.0.1:0"):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.seed = seed
        self.rules = [Rule(text) for text in rules]
        self.counts = {"connections": 0, "cuts": 0, "stalls": 0, "flips": 0, UP: 0, DOWN: 0}
        host, port = listen.rsplit(":", 1)
        self._counted = threading.Condition()
        self._listener = socket.create_server((host, int(port)), backlog=1024)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self.address = f"{host}:{self.port}"
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._timers = []
        self._order = itertools.count()
        self._open = set()
        self._gathered = []  # connections that a reorder holds
        self._orders = []  # from other threads
        self._thread = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *error):
        self.stop()

    def start(self):
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_in, selectors.EVENT_READ, self._woken)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def stop(self):
        """Cuts all connections and ends."""
        if self._thread:
            self._order_all(None)
            self._thread.join()
            self._thread = None
            for closable in (self._listener, self._wake_in, self._wake_out, self._selector):
                closable.close()

    def cut(self, how="rst"):
        """Cuts all open connections now."""
        self._order_all(lambda: [self._close(one, how) for one in list(self._open)])

    def wait_for(self, name, count=1, timeout=60):
        """Until counts[name] is at least this; TimeoutError if it does not come to that."""
        with self._counted:
            if not self._counted.wait_for(lambda: self.counts[name] >= count, timeout):
                raise TimeoutError(f"{self.counts[name]} {name} in {timeout} s, not {count}")

    def set_rules(self, *rules):
        """Other rules, for the connections to come; without rules it only forwards, and what open
        connections have of cuts, stalls, throttles and flips is gone."""
        read = [Rule(text) for text in rules]
        self._order_all(lambda: self._replace(read))

    # The rest runs on the proxy's thread.

    def _count(self, name, more=1):
        if more:
            with self._counted:
                self.counts[name] += more
                self._counted.notify_all()

    def _order_all(self, order):
        self._orders.append(order)
        self._wake_out.send(b"x")

    def _run(self):
        is_running = True
        while is_running:
            wait = max(0, self._timers[0][0] - time.monotonic()) if self._timers else None
            for key, mask in self._selector.select(wait):
                key.data(key.fileobj, mask)
            while self._timers and self._timers[0][0] <= time.monotonic():
                heapq.heappop(self._timers)[2]()
            while self._orders:
                order = self._orders.pop(0)
                if order:
                    order()
                else:
                    is_running = False
        for connection in list(self._open):
            self._close(connection, "rst")

    def _woken(self, wake, _mask):
        wake.recv(4096)

    def _at(self, seconds, what):
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), what))

    def _replace(self, rules):
        self.rules = rules
        if rules:
            return
        self._open_gathered()
        for connection in list(self._open):
            for flow in connection.flows.values():
                flow.cut_at, flow.stalls, flow.flips, flow.throttles = NEVER, [], [], []
                flow.is_paused = False
            self._update(connection)

    def _accept(self, listener, _mask):
        try:
            client, _ = listener.accept()
        except OSError:
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._count("connections")
        connection = _Connection(self.counts["connections"], client)
        connection.rules = [(i, rule) for i, rule in enumerate(self.rules)
                            if rule.meets(connection.index)]
        self._open.add(connection)
        for _, rule in connection.rules:
            if rule.kind == "refuse":
                self._count("cuts")
                return self._close(connection, rule.how)
            if rule.kind == "mute":
                connection.flows[UP] = _Flow(UP, client, None)
                return self._update(connection)
        for i, rule in connection.rules:
            if rule.kind == "reorder":
                return self._gather(connection, rule, self._rng(connection, i, ""))
        self._connect(connection)
        return None

    def _rng(self, connection, rule_index, direction):
        return random.Random(f"{self.seed}/{connection.index}/{rule_index}/{direction}")

    def _gather(self, connection, rule, rng):
        self._gathered.append((rng.random(), connection))
        if len(self._gathered) >= rule.draw("of", rng, 2):
            self._open_gathered()
        elif len(self._gathered) == 1:
            self._at(rule.draw("seconds", rng, 1), self._open_gathered)

    def _open_gathered(self):
        gathered, self._gathered = sorted(self._gathered, key=lambda one: one[0]), []
        for _, connection in gathered:
            if connection.is_open:
                self._connect(connection)

    def _connect(self, connection):
        server = connection.server = socket.socket()
        server.setblocking(False)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.connect_ex(self.target)  # a refusal shows when it is read
        flows = connection.flows
        flows[UP] = _Flow(UP, connection.client, server)
        flows[DOWN] = _Flow(DOWN, server, connection.client)
        for i, rule in connection.rules:
            for direction in rule.directions:
                flows[direction].add(rule, self._rng(connection, i, direction))
        self._update(connection)

    def _update(self, connection):
        """Registers what each socket waits for."""
        wanted = {}
        for flow in connection.flows.values():
            wanted.setdefault(flow.source, 0)
            if flow.waiting:
                wanted[flow.sink] = wanted.get(flow.sink, 0) | selectors.EVENT_WRITE
            elif not flow.is_paused and not flow.is_at_end:
                wanted[flow.source] |= selectors.EVENT_READ
        for sock, events in wanted.items():
            before = connection.events.get(sock, 0)
            if events == before:
                continue
            if not events:
                self._selector.unregister(sock)
            else:
                handler = (lambda s, mask, c=connection: self._ready(c, s, mask))
                (self._selector.modify if before else self._selector.register)(
                    sock, events, handler)
            connection.events[sock] = events

    def _ready(self, connection, sock, mask):
        try:
            for flow in list(connection.flows.values()):
                if not connection.is_open:
                    return
                if sock is flow.sink and mask & selectors.EVENT_WRITE:
                    self._send(flow)
                if (sock is flow.source and mask & selectors.EVENT_READ and not flow.waiting and
                        not flow.is_paused and not flow.is_at_end):
                    self._read(connection, flow)
        except BlockingIOError:
            pass
        except OSError:
            return self._close(connection, "rst")
        if connection.is_open:
            self._update(connection)
        return None

    def _read(self, connection, flow):
        room = flow.room()
        if room <= 0 and flow.cut_at <= flow.seen:
            self._count("cuts")
            return self._close(connection, flow.cut_how)
        if room <= 0:
            _, seconds = flow.stalls.pop()
            self._count("stalls")
            return self._pause(connection, flow, seconds)
        for rule in flow.throttles:
            room = min(room, self._allow(rule, flow.direction))
            if room < 1:
                return self._pause(connection, flow, 0.005)
        data = bytearray(flow.source.recv(int(room)))
        if not data:
            flow.is_at_end = True
        for rule in flow.throttles:
            rule.allowance[flow.direction] -= len(data)
        self._count("flips", flow.flip(data))
        self._count(flow.direction, len(data))
        flow.seen += len(data)
        if flow.sink:
            flow.waiting = memoryview(data)
            self._send(flow)
        if all(one.is_shut for one in connection.flows.values()) or (data == b"" and not flow.sink):
            self._close(connection, "fin")
        return None

    @staticmethod
    def _send(flow):
        try:
            while flow.waiting:
                flow.waiting = flow.waiting[flow.sink.send(flow.waiting):]
        except BlockingIOError:
            return
        if flow.is_at_end and not flow.is_shut:
            flow.is_shut = True
            flow.sink.shutdown(socket.SHUT_WR)

    def _pause(self, connection, flow, seconds):
        flow.is_paused = True

        def go_on():
            flow.is_paused = False
            if connection.is_open:
                self._update(connection)
        if seconds != NEVER:
            self._at(seconds, go_on)

    def _allow(self, rule, direction):
        """How many bytes a throttle lets through now: at most 20 ms of its rate at once."""
        now = time.monotonic()
        rate = rule.ranges["rate"][0]
        for each in (UP, DOWN):
            rule.allowance[each] = min(rule.allowance[each] + rate * (now - rule.filled_at),
                                       max(rate * 0.02, 1))
        rule.filled_at = now
        return rule.allowance[direction]

    def _close(self, connection, how):
        connection.is_open = False
        self._open.discard(connection)
        for sock in (connection.client, connection.server):
            if not sock:
                continue
            if connection.events.get(sock):
                self._selector.unregister(sock)
            if how == "rst":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="TARGET", help="HOST:PORT")
    parser.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT; port 0: a free one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("rules", metavar="RULE", nargs="*")
    options = parser.parse_args()
    try:
        proxy = ChaosProxy(options.target, *options.rules, seed=options.seed, listen=options.listen)
    except ValueError as error:
        sys.exit(f"chaos_proxy.py: {error}")
    with proxy:
        print(f"listening on {proxy.address}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(proxy.counts)


if __name__ == "__main__":
    main()
