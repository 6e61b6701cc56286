"""offload_job serve: jobs by REST and on one page, for this machine's user alone.

It listens on loopback or a Unix socket.  Whoever has the token can submit a job, and so run any
command as the user who serves: the token equals a shell.  Every call of the API carries it in a
header that no other site's page can set; Host and Origin are checked besides, against DNS rebinding
and pages of other origins.  The page itself, its script and its style hold no secret.
"""
import contextlib
import hmac
import http.server
import ipaddress
import json
import os
import secrets
import select
import signal
import socket
import socketserver
import stat
import subprocess
import sys
import threading
import traceback
import urllib.parse

from . import JobError, api, figures, spec, store

MAX_BODY = 2 * spec.MAX_BYTES  # a job's text, escaped as JSON
MAX_CONNECTIONS = 64  # a page has up to four at once
TIMEOUT_S = 30.0  # of a read or a write
TUNNEL_PORT = 8400  # of the URL of a Unix socket, which a browser reaches through a tunnel
HOSTS = ("127.0.0.1", "localhost", "[::1]")
_FOLDER = os.path.dirname(os.path.abspath(__file__))
STATIC = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    f"{api.BASE}/openapi.json": ("openapi.json", "application/json"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                               "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Handler(http.server.BaseHTTPRequestHandler):
    server_version, sys_version = "offload_job", ""
    timeout = TIMEOUT_S

    def do_GET(self):
        self._answer("GET")

    def do_POST(self):
        self._answer("POST")

    def address_string(self):
        return "local"

    def log_message(self, *_):
        pass  # what goes wrong inside is printed, requests are not

    # --- one request ---

    def _answer(self, method):
        self.has_begun = False
        try:
            self._send(*self._call(method))
        except api.Refused as refused:
            self._error(refused.status, str(refused))
        except spec.SpecError as error:
            self._send(422, {"error": "the job has mistakes", "problems": api.problems(error)})
        except JobError as error:
            self._error(409, str(error))
        except (ConnectionError, TimeoutError):
            pass  # the client has left
        except Exception:
            traceback.print_exc()
            self._error(500, "a mistake of offload_job; its standard error has more")

    def _call(self, method):
        """(status, what to send) of the request."""
        self._check_origin()
        path, _, query = self.path.partition("?")
        if method == "GET" and path in STATIC:
            name, kind = STATIC[path]
            with open(os.path.join(_FOLDER, name), "rb") as file:
                return 200, file.read(), kind
        self._check_token()
        function, id, query_names, body_names = api.find(method, path)
        call = api.Call(self.server.store, self.server.engines, self.server.figures, id, self._query(query, query_names),
                        self._body(body_names) if method == "POST" else {})
        answer = function(call)
        return answer if isinstance(answer, tuple) else (200, answer)

    def _check_origin(self):
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        if len(hosts) != 1 or not self._is_local(hosts[0]):
            raise api.Refused(421, "Host: ask for 127.0.0.1 or localhost")
        if origins and origins != [f"http://{hosts[0]}"]:
            raise api.Refused(403, "Origin: pages of other sites may not ask")

    @staticmethod
    def _is_local(host):
        """A name and perhaps a port, which a tunnel may have changed."""
        name, colon, port = host.rpartition(":") if host[-1:] != "]" else (host, "", "")
        return (name if colon else host) in HOSTS and (not colon or (port.isascii() and port.isdigit()))

    def _check_token(self):
        given = self.headers.get_all("Authorization", [])
        wanted = f"Bearer {self.server.token}".encode()
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("utf-8", "surrogateescape"), wanted):
            raise api.Refused(401, "the token is missing, or of another offload_job serve")

    @staticmethod
    def _query(text, names):
        try:
            pairs = urllib.parse.parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=10)
        except ValueError:
            raise api.Refused(400, "the query cannot be read") from None
        for name, _ in pairs:
            if name not in names:
                raise api.Refused(400, f"query: {name[:40]!r} is not one of {', '.join(names) or 'none'}")
        if len(dict(pairs)) != len(pairs):
            raise api.Refused(400, "query: a name is given twice")
        return dict(pairs)

    def _body(self, names):
        lengths = self.headers.get_all("Content-Length", [])
        if len(lengths) != 1 or "Transfer-Encoding" in self.headers:
            raise api.Refused(411, "Content-Length: has to be given, once")
        if not (lengths[0].isascii() and lengths[0].isdigit()):
            raise api.Refused(400, "Content-Length: is not a number")
        if len(lengths[0]) > 10 or int(lengths[0]) > MAX_BODY:
            raise api.Refused(413, f"the body is larger than {MAX_BODY} bytes")
        data = self.rfile.read(int(lengths[0]))
        if len(data) < int(lengths[0]):
            raise ConnectionResetError
        if self.headers.get_content_type() != "application/json" and data:
            raise api.Refused(415, "Content-Type: application/json")
        try:
            body = json.loads(data.decode("utf-8")) if data else {}
        except (ValueError, RecursionError):
            raise api.Refused(400, "the body is not JSON") from None
        if not isinstance(body, dict):
            raise api.Refused(400, "the body is not an object")
        for name in body:
            if name not in names:
                raise api.Refused(400, f"{name[:40]!r} is not one of {', '.join(names) or 'none'}")
        return body

    # --- answers ---

    def _head(self, status, kind, length=None):
        self.has_begun = True
        self.send_response(status)
        for name, value in {"Content-Type": kind, **HEADERS}.items():
            self.send_header(name, value)
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send(self, status, value, kind="application/json"):
        if isinstance(value, (api.Lines, api.Follow)):
            self._head(status, "text/plain; charset=utf-8")
            return self._follow(value) if isinstance(value, api.Follow) else self._lines(value)
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self._head(status, kind, len(data))
        return self.wfile.write(data)

    def _error(self, status, text):
        with contextlib.suppress(ConnectionError, TimeoutError):
            if not self.has_begun:
                self._send(status, {"error": text})

    def _lines(self, lines):
        for role, line in lines.lines:
            self.wfile.write((line if lines.has_role else f"{role}: {line}").encode("utf-8", "replace") + b"\n")

    def _follow(self, what):
        """By a process, which can be ended when the client leaves while nothing is logged."""
        words = ["logs", "--jobs", self.server.store.folder, "--follow", *(["--role", what.role] if what.role else []),
                 what.id]
        left = what.skip
        with self.server.child(words) as child:
            while True:
                ready, _, _ = select.select([child.stdout, self.connection], [], [])
                if self.connection in ready:
                    return  # nothing is to come from there but its end
                data = os.read(child.stdout.fileno(), 65536)
                if not data:
                    return
                while left and data:
                    found = data.find(b"\n")
                    left, data = (left, b"") if found < 0 else (left - 1, data[found + 1:])
                self.wfile.write(data)


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Listens at an address of loopback or the path of a Unix socket, which it makes."""
    daemon_threads, allow_reuse_address, request_queue_size = True, True, MAX_CONNECTIONS

    def __init__(self, address, jobs):
        self.store, self.engines, self.figures = jobs, api.Engines(), figures.Figures()
        self.token = secrets.token_urlsafe(32)
        self.children, self.lock = set(), threading.Lock()
        self.room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.is_unix = isinstance(address, str)
        if self.is_unix:
            self.address_family, self.allow_reuse_address = socket.AF_UNIX, False
            _remove_stale(address)
        elif ":" in address[0]:
            self.address_family = socket.AF_INET6
        before = os.umask(0o177)  # the mode of a Unix socket is 0600
        try:
            super().__init__(address, Handler)
        except OSError as error:
            shown = address if self.is_unix else ":".join(map(str, address))
            raise JobError(f"--listen {shown}: {error.strerror or error}") from None
        finally:
            os.umask(before)

    def process_request(self, request, client_address):
        if self.room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.room.release()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            traceback.print_exc()

    @contextlib.contextmanager
    def child(self, words):
        """offload_job with these words, ended with the request."""
        package = __package__.rpartition(".")[0]
        above = os.path.normpath(os.path.join(_FOLDER, *[".."] * (__package__.count(".") + 1)))
        code = (f"import sys; sys.path.insert(0, {above!r}); from {__package__} import cli; "
                f"sys.exit(cli.main({package!r}, sys.argv[1:]))")
        with subprocess.Popen([sys.executable, "-c", code, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, cwd="/") as child:
            with self.lock:
                self.children.add(child)
            try:
                yield child
            finally:
                child.kill()
                with self.lock:
                    self.children.discard(child)

    def close(self):
        self.server_close()
        with self.lock:
            for child in self.children:
                child.kill()
        if self.is_unix:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.server_address)

    @property
    def url(self):
        if self.is_unix:
            return f"http://localhost:{TUNNEL_PORT}/"
        host, port = self.server_address[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def _remove_stale(path):
    """A socket that nobody listens at is of a server that was killed."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise JobError(f"--listen {path}: is there, and is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
        except OSError:
            pass  # bind() tells


def parse_address(text):
    """HOST:PORT of loopback as (host, port), or the absolute path of a Unix socket."""
    if "/" in text:
        return os.path.abspath(text)
    host, _, port = text.rpartition(":")
    host = {"": "127.0.0.1", "localhost": "127.0.0.1"}.get(host, host.strip("[]"))
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise JobError(f"--listen {text}: only this machine may ask: 127.0.0.1:PORT, [::1]:PORT, or the path of a Unix "
                       f"socket; from elsewhere use ssh -L")
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise JobError(f"--listen {text}: {port!r} is not a port")
    return host, int(port)


def write_token(path, token):
    """A new file with mode 0600, in place of one that is there."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    new = f"{path}.{os.getpid()}"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(made, "w", encoding="ascii") as file:
            file.write(token + "\n")
        os.replace(new, path)
    except OSError as error:
        raise JobError(f"--token-file {path}: {error.strerror}") from None


def run(listen, token_file, folder):
    """Serves until SIGINT or SIGTERM."""
    jobs = store.Store(folder)
    path = os.path.abspath(token_file) if token_file else os.path.join(jobs.folder, "serve.token")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    server = Server(parse_address(listen), jobs)
    try:
        write_token(path, server.token)
        if server.is_unix:
            print(f"offload_job: for a browser: ssh -L {TUNNEL_PORT}:{server.server_address} {socket.gethostname()}",
                  file=sys.stderr)
        print(f"offload_job: whoever has this URL or {path} can run commands as you", file=sys.stderr)
        print(f"{server.url}#{server.token}", flush=True)
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
        with contextlib.suppress(OSError):
            with open(path, encoding="ascii") as file:
                is_ours = file.read().strip() == server.token
            if is_ours:
                os.unlink(path)
    return 0
