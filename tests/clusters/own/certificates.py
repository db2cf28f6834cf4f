"""Certificates for tests: an authority, and what it signs; an HTTP server that shows one of them."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.served import served

DAY = dt.timedelta(days=1)


class Authority:
    """Signs certificates into a directory: ``NAME.pem`` and ``NAME.key``."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.signed(name, authority=True)

    def signed(self, name, *, names=(), address=None, authority=False, passphrase=None):
        key = self.key if authority else ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        alternatives = [x509.DNSName(one) for one in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address))] if address else []
        issuer, subject = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (self.name, name))
        made = x509.CertificateBuilder(issuer_name=issuer, subject_name=subject, public_key=key.public_key())
        made = made.serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - DAY).not_valid_after(now + DAY)
        made = made.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        if alternatives:
            made = made.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        pem = made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        lock = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        form = serialization.PrivateFormat.PKCS8
        (self.folder / f"{name}.pem").write_bytes(pem)
        (self.folder / f"{name}.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, lock))


class Handler(BaseHTTPRequestHandler):
    """Says what its server holds, and hangs up on what is called so."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        held = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, self.client_address[1]))
        if "hang-up" in self.path:
            self.close_connection = True
            return
        body = held or self.server.said
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST = do_GET  # noqa: N815 - the base class calls them so


class Quiet(ThreadingHTTPServer):
    """Without a word where a handshake fails."""

    daemon_threads = True

    def handle_error(self, *_):
        pass

    def finish_request(self, request, client_address):
        with contextlib.suppress(OSError):
            request.do_handshake()
            super().finish_request(request, client_address)


@contextlib.contextmanager
def serving(folder, name, *, clients=None, said=b"{}", version=None):
    """A server with the certificate of that name. ``clients``: the authority of those that it lets in."""
    made = Quiet(("127.0.0.1", 0), Handler)
    made.seen, made.said = [], said
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    if version is not None:
        context.maximum_version = version
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / f"{clients}.pem")
    made.socket = context.wrap_socket(made.socket, server_side=True, do_handshake_on_connect=False)
    with served(made):
        yield made
