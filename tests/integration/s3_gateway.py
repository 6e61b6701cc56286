"""A gateway in front of an S3 server: looks at the signature of every request, and harms answers as it
is told to, the same way for the same seed.

    with Gateway("http://127.0.0.1:5000", {"KEY": "SECRET"}) as gateway:
        gateway.faults = {"503": 0.1, "reset": 0.05, "cut": 0.05, "delay": 0.1}
        client(gateway.url)

Faults: "delay" (DELAY_S), "503" and "429" (the status), "reset" (no answer), "cut" (half of the body),
"etag" (another ETag than the object's).  A body of another version under the right ETag is no fault
here: nothing but a hash of the content shows it.  stall_next() holds answers back until release().
"""
import http.client
import http.server
import random
import socket
import ssl
import struct
import threading
import time
import urllib.parse

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

DELAY_S = 0.05


def signature_of(method, url, headers, secrets):
    """What is wrong with a request's signature, as botocore computes it: an S3 code, or None."""
    given = headers.get("Authorization")
    if given is None:
        return "AccessDenied"
    fields = dict(part.strip().split("=", 1)
                  for part in given.split(" ", 1)[1].split(","))
    key, _, region, service, _ = fields["Credential"].split("/")
    if key not in secrets:
        return "InvalidAccessKeyId"
    signed = fields["SignedHeaders"].split(";")
    request = AWSRequest(method, url, headers={name: headers[name] for name in signed})
    request.context["timestamp"] = headers["x-amz-date"]
    auth = S3SigV4Auth(Credentials(key, secrets[key]), service, region)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return None if auth.signature(text, request) == fields["Signature"] else "SignatureDoesNotMatch"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *unused):
        pass

    def refuse(self, status, code):
        body = f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.wfile.flush()
        self.connection.close()

    def forward(self):
        server = self.server.gateway
        target = urllib.parse.urlsplit(server.target)
        connection = http.client.HTTPConnection(target.hostname, target.port, timeout=60)
        headers = {name: value for name, value in self.headers.items()
                   if name.lower() not in ("connection",)}
        connection.request(self.command, self.path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    def do_GET(self):
        gateway = self.server.gateway
        fault = gateway.note(self)
        url = ("https" if gateway.is_tls else "http") + "://" + self.headers["Host"] + self.path
        wrong = signature_of(self.command, url, self.headers, gateway.secrets)
        if wrong:
            self.refuse(403, wrong)
            return
        if fault == "delay":
            time.sleep(DELAY_S)
        elif fault in ("503", "429"):
            self.refuse(int(fault), "SlowDown")
            return
        elif fault == "reset":
            self.reset()
            return
        answer, body = self.forward()
        if self.command == "GET" and "list-type" not in self.path:
            gateway.stall()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() == "etag" and fault == "etag":
                value = '"of-another-version"'
            if name.lower() in ("etag", "content-type", "content-range", "last-modified"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else len(body)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "cut" and body:
            self.wfile.write(body[:len(body) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.wfile.write(body)
        gateway.count_bytes(len(body))

    do_HEAD = do_GET


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *unused):
        pass  # who was cut off

    def get_request(self):
        connection, address = super().get_request()
        self.gateway.num_connections += 1
        return connection, address


class Gateway:
    def __init__(self, target, secrets, seed=1, certificate=None, key=None):
        self.target = target
        self.secrets = secrets
        self.is_tls = certificate is not None
        self.faults = {}
        self.num_requests = self.num_connections = self.num_bytes = 0
        self.seen = []  # requests, "GET /bucket/key range"
        self.num_faults = {}
        self.num_to_stall = self.num_stalled = 0
        self.released = threading.Event()
        self.rng = random.Random(seed)
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.gateway = self
        if self.is_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        host = "localhost" if self.is_tls else "127.0.0.1"
        self.url = f"{'https' if self.is_tls else 'http'}://{host}:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def note(self, request):
        """Counts it and draws its fault."""
        with self.lock:
            self.num_requests += 1
            self.seen.append(f"{request.command} {request.path} {request.headers.get('Range', '')}")
            draw = self.rng.random()
            for fault, share in self.faults.items():
                if draw < share:
                    self.num_faults[fault] = self.num_faults.get(fault, 0) + 1
                    return fault
                draw -= share
        return None

    def stall_next(self, count):
        """The next answers with objects come when they are released."""
        with self.lock:
            self.num_to_stall = count
            self.num_stalled = 0
            self.released.clear()

    def stall(self):
        with self.lock:
            if self.num_to_stall == 0:
                return
            self.num_to_stall -= 1
            self.num_stalled += 1
        self.released.wait()

    def release(self):
        with self.lock:
            self.num_to_stall = 0
            self.released.set()

    def count_bytes(self, count):
        with self.lock:
            self.num_bytes += count

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.release()
        self.server.shutdown()
        self.server.server_close()
