"""An HTTP service that returns numbers as JSON, page by page."""

import http.server
import json
from urllib.parse import parse_qs, urlsplit


class NumberPages(http.server.ThreadingHTTPServer):
    """Returns, for ``?after=N``, a page of the numbers after N and below ``count``."""

    def __init__(self, field, count, page):
        super().__init__(("127.0.0.1", 0), _Page)
        self.field, self.count, self.page = field, count, page


class _Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        of = self.server
        after = int(parse_qs(urlsplit(self.path).query).get("after", ["-1"])[0])
        there = range(after + 1, min(of.count, after + 1 + of.page))
        body = json.dumps([{of.field: number} for number in there]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
