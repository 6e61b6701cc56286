"""A server's health, asked for and watched by a stock gRPC client."""
import threading
import time

import harness

stubs = harness.stubs()
health_pb2, health_pb2_grpc = stubs["health_pb2"], stubs["health_pb2_grpc"]
SERVING, NOT_SERVING = 1, 2


class Health:
    """Watches a server's health from the start on."""

    def __init__(self, address):
        import grpc
        self.channel = grpc.insecure_channel(address)
        self.stub = health_pb2_grpc.HealthStub(self.channel)
        self.heard = []
        self.changed = threading.Condition()
        self.call = self.stub.Watch(health_pb2.HealthCheckRequest())
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.call.cancel()
        self.thread.join()
        self.channel.close()

    def _listen(self):
        import grpc
        try:
            for reply in self.call:
                with self.changed:
                    self.heard.append(reply.status)
                    self.changed.notify_all()
        except grpc.RpcError:
            pass

    def check(self):
        return self.stub.Check(health_pb2.HealthCheckRequest(), timeout=harness.TIMEOUT_S).status

    def wait_for(self, status):
        """Until the watch and Check say so."""
        until = time.monotonic() + harness.TIMEOUT_S
        with self.changed:
            while not self.heard or self.heard[-1] != status:
                if not self.changed.wait(until - time.monotonic()):
                    raise AssertionError(f"health never became {status}: {self.heard}")
        while self.check() != status:
            if time.monotonic() > until:
                raise AssertionError(f"Check never said {status}")
