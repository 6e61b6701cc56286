#!/usr/bin/env python3
"""Where a run reads its samples, and what it says if it reaches no server: one line in words of ours
with the host, at once while it is tried again and as the error at the end."""
import socket
import threading
import unittest

from programs import Port, SynthTest, Train, run


class Listener:
    """A program that is no offload_server: answers what comes first on each connection so, and
    closes it."""

    def __init__(self, answer):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.answer = answer
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            with connection:
                if not connection.recv(1000):
                    continue
                if self.answer is None:
                    return
                try:
                    connection.sendall(self.answer)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1000):
                        pass
                except OSError:  # the client closed first
                    pass

    def close(self):
        self.answer = None
        with socket.create_connection(self.socket.getsockname()) as last:
            last.sendall(b"end")
            self.thread.join()
        self.socket.close()


class FirstConnectTest(SynthTest):
    SYNTH = ("-n", "8", "--num-val", "0", "--classes", "2")

    def train(self, *flags, code=0):
        """The lines on standard error, without their times, and what is on standard output."""
        done = run("offload_train", "--device", "none", "-b", 4, "-p", 0, "--image-size", 32, *flags,
                   code=code)
        lines = [line.split(" ", 1)[1] if line[:2] == "20" else line
                 for line in done.stderr.splitlines()]
        return lines, done.stdout

    def test_dir_without_host_is_local_and_says_so(self):
        lines, out = self.train(self.root)
        self.assertIn("--dataset-mode local", lines[0])
        self.assertIn(str(self.root), lines[0])
        self.assertIn("8 samples", out)

    def test_a_server_and_a_dir_say_which_is_read(self):
        server = self.serve()
        for flags in (("--host", server.address),
                      ("--host", server.address, "--dataset-mode", "remote_nooff")):
            lines, _ = self.train(self.root, *flags)
            self.assertIn(f"{self.root} is not read: the server at {server.address}", lines[0])
        lines, _ = self.train("--host", server.address)
        self.assertNotIn("is not read", "\n".join(lines))
        lines, _ = self.train(self.root, "--host", server.address, "--dataset-mode", "local")
        self.assertIn("whatever --host says", lines[0])

    def test_a_dir_that_is_none_is_one_line(self):
        for place, why in ((self.root / "nowhere", "No such file"), (__file__, "no folder")):
            lines, _ = self.train(place, "--dataset-mode", "local", code=1)
            self.assertEqual(len(lines), 1)
            self.assertIn(str(place), lines[0])
            self.assertIn(why, lines[0])
            lines, _ = self.train(place, code=1)
            self.assertIn("--host", lines[-1])

    def test_without_host_the_first_line_says_what_to_do(self):
        # Mode and DIR leave 127.0.0.1:50051; another test's machine may have a server there.
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", 50051)) == 0:
                self.skipTest("something listens on 127.0.0.1:50051")
        lines, _ = self.train("--retry-for", "0.2", code=1)
        self.assertEqual(len(lines), 2)
        self.assertEqual(lines[0], "offload_train warning: cannot reach 127.0.0.1:50051: connection "
                         "refused: is offload_server running there? (trying for up to 0.2 s; --host "
                         "HOST[:PORT] names a server, a folder as DIR needs none)")

    def check_unreachable(self, address, why):
        cause = f"cannot reach {address}: {why}"
        lines, _ = self.train("--host", address, "--retry-for", "0.2", code=1)
        self.assertEqual(lines, [f"offload_train warning: {cause} (trying for up to 0.2 s)",
                                 f"offload_train error: {cause} (tried for 0.2 s)"])
        lines, _ = self.train("--host", address, "--retry-for", "0", code=1)
        self.assertEqual(lines, [f"offload_train error: {cause}"])
        lines, _ = self.train("--host", address, "--retry-for", "0", "--log-level", "debug", code=1)
        self.assertIn("/sluice.v1.Offload/Hello: UNAVAILABLE", "\n".join(lines))

    def test_a_host_that_refuses(self):
        with Port() as port:
            self.check_unreachable(f"127.0.0.1:{port}",
                                   "connection refused: is offload_server running there?")

    def test_a_name_that_does_not_resolve(self):
        # No resolver needs to be asked about a name with an empty part.
        self.check_unreachable("storage..invalid:50051", "the name does not resolve")

    def test_another_program_listens(self):
        tls_alert = bytes([21, 3, 3, 0, 2, 2, 22])
        for answer in (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
                       b"SSH-2.0-OpenSSH_9.2\r\n", tls_alert):
            listener = Listener(answer)
            try:
                lines, _ = self.train("--host", listener.address, "--retry-for", "0", code=1)
                self.assertEqual(len(lines), 1)
                self.assertIn(f"cannot reach {listener.address}: ", lines[0])
                self.assertIn("another program", lines[0])
            finally:
                listener.close()

    def test_it_says_that_the_server_came(self):
        with Port() as port:
            run = Train("-b", 4, "-p", 0, "--host", f"127.0.0.1:{port}", "--dataset-mode",
                        "remote_nooff")
            self.assertIn("connection refused", next(run.lines()))
            self.serve(listen=f"127.0.0.1:{port}")
            _, err = run.end()
        self.assertRegex(err, rf"127.0.0.1:{port} is there after [0-9.]+ s")

    def test_a_port_that_there_is_not(self):
        for host in ("127.0.0.1:99999", "h:0", "h:", ":", "::1", "http://h:1"):
            lines, _ = self.train("--host", host, code=2)
            self.assertEqual(len(lines), 1)
            self.assertIn("--host", lines[0])
        lines, _ = self.train("--host", ":1", "--retry-for", "0", code=1)
        self.assertIn("cannot reach 127.0.0.1:1: ", lines[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
