#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small server on loopback that misbehaves on request.

    httpd.py --root DIR --port-file FILE [--log FILE] [--tls CERT KEY [--client-ca CA]]

It serves DIR under a first path component that says how, so that /cut/500/debian is a mirror, too:

    /ok/PATH          as it should be: ranges, ETag, Last-Modified, conditional requests
    /norange/PATH     ranges are ignored
    /weak/PATH        no ETag: a changed file cannot be detected
    /status/N/PATH    always HTTP N
    /busy/N/PATH      HTTP 503 to the first N requests for PATH, then ok
    /after/S/PATH     HTTP 503 with Retry-After: S to the first request, then ok
    /cut/N/PATH       the connection ends after N bytes of each answer, which ranges go on from
    /cutopen/N/PATH   the same, and the length was never said
    /short/PATH       says and sends a byte less
    /long/PATH        says and sends a byte more
    /wrong/PATH       another content of the same length
    /secret/PATH      HTTP 401 to all but user me with password secret
    /dead/PATH        takes the request and says nothing
    /slow/PATH        a byte every 50 ms
    /loop/PATH        redirects to itself
    /to/PATH          redirects to /ok/PATH
    /away/N/PATH      redirects to /ok/PATH at port N
    /tofile/PATH      redirects to file:///PATH
    /bomb/PATH        never ends
"""
import argparse
import email.utils
import http.server
import os
import ssl
import threading
import time
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    counts = {}
    lock = threading.Lock()
    options = None

    def log_message(self, *_):
        pass

    def note(self, status):
        if not self.options.log:
            return
        wanted = self.headers.get("Range", "-")
        with self.lock, open(self.options.log, "a", encoding="utf-8") as log:
            log.write(f"{status} {self.path} {wanted}\n")

    def seen(self):
        """How often this path was asked for before."""
        with self.lock:
            count = self.counts.get(self.path, 0)
            self.counts[self.path] = count + 1
        return count

    def answer(self, status, headers=None, length=0):
        self.note(status)
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def end_connection(self):
        self.close_connection = True

    def send_part(self, how, number, data):
        if how == "slow":
            for i in range(len(data)):
                self.wfile.write(data[i : i + 1])
                self.wfile.flush()
                time.sleep(0.05)
        elif how in ("cut", "cutopen"):
            self.wfile.write(data[:number])
            self.wfile.flush()
            self.end_connection()
        else:
            self.wfile.write(data)

    def send_content(self, how, number, path):
        try:
            with open(path, "rb") as file:
                data = file.read()
            status = os.stat(path)
        except OSError:
            return self.answer(404)
        if how == "short":
            data = data[:-1]
        elif how == "long":
            data += b"x"
        elif how == "wrong":
            data = bytes(byte ^ 0x55 for byte in data)
        etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
        headers = {"Last-Modified": email.utils.formatdate(status.st_mtime, usegmt=True)}
        if how != "weak":
            headers["ETag"] = etag
            if self.headers.get("If-None-Match") == etag:
                return self.answer(304, headers)
        first = self.first_byte(how, etag, len(data))
        if first is None:
            return self.answer(416, {"Content-Range": f"bytes */{len(data)}"})
        if first:
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        rest = data[first:]
        if how == "cutopen":
            headers["Connection"] = "close"
        self.answer(206 if first else 200, headers, None if how == "cutopen" else len(rest))
        return self.send_part(how, number, rest)

    def first_byte(self, how, etag, size):
        wanted = self.headers.get("Range", "")
        if how == "norange" or not wanted.startswith("bytes=") or not wanted.endswith("-"):
            return 0
        if self.headers.get("If-Range", etag) != etag:
            return 0
        first = int(wanted[6:-1])
        return first if first < size else None

    def send_bomb(self):
        self.answer(200, {"Connection": "close"}, None)
        block = b"\0" * 65536
        while True:
            self.wfile.write(block)

    def do_GET(self):
        # A proxy is asked for whole URLs: then it is one, for whatever host.
        asked = urllib.parse.urlsplit(self.path).path
        parts = urllib.parse.unquote(asked).lstrip("/").split("/")
        how = parts.pop(0)
        number = int(parts.pop(0)) if how in ("status", "busy", "after", "cut", "cutopen", "away") else 0
        path = os.path.join(self.options.root, *parts)
        try:
            self.serve(how, number, path, "/".join(parts))
        except (BrokenPipeError, ConnectionResetError):
            self.end_connection()

    def serve(self, how, number, path, rest):
        if how == "status":
            self.answer(number)
        elif how == "busy" and self.seen() < number:
            self.answer(503)
        elif how == "after" and self.seen() == 0:
            self.answer(503, {"Retry-After": str(number)})
        elif how == "secret" and self.headers.get("Authorization") != "Basic bWU6c2VjcmV0":
            self.answer(401, {"WWW-Authenticate": "Basic"})
        elif how == "dead":
            self.note(0)
            time.sleep(600)
        elif how == "loop":
            self.answer(302, {"Location": self.path})
        elif how == "to":
            self.answer(302, {"Location": "/ok/" + rest})
        elif how == "away":
            scheme = "https" if self.options.tls else "http"
            self.answer(302, {"Location": f"{scheme}://127.0.0.1:{number}/ok/{rest}"})
        elif how == "tofile":
            self.answer(302, {"Location": "file:///" + rest})
        elif how == "bomb":
            self.send_bomb()
        else:
            self.send_content(how, number, path)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--port-file", required=True)
    parser.add_argument("--log")
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("--client-ca")
    Handler.options = parser.parse_args()
    server = Server(("127.0.0.1", 0), Handler)
    if Handler.options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*Handler.options.tls)
        if Handler.options.client_ca:
            context.load_verify_locations(Handler.options.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
    name = Handler.options.port_file
    with open(name + ".tmp", "w", encoding="ascii") as file:
        file.write(f"{server.server_address[1]}\n")
    os.rename(name + ".tmp", name)
    server.serve_forever()


main()
