"""Items with their prices from an HTTP service, with many requests at a time.

    python examples/async_enrichment.py [URL]

The service answers ``GET URL/ITEM`` with a number.  Without a URL the program starts one in this
process.
"""

import asyncio
import http.server
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from penstock.common import Time, Types
from penstock.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment

ITEMS = ["tea", "cake", "jam", "tea"]
PRICES = {"tea": 2.5, "cake": 4.0, "jam": 3.0}
PRICED = Types.TUPLE([Types.STRING(), Types.DOUBLE()])


class Prices(AsyncFunction):
    """Sends requests in threads, since urllib blocks; a client with coroutines needs none."""

    def __init__(self, url):
        self.url = url

    def open(self, runtime_context):
        self.threads = ThreadPoolExecutor(8)

    def close(self):
        self.threads.shutdown()

    async def async_invoke(self, value):
        loop = asyncio.get_running_loop()
        return [(value, await loop.run_in_executor(self.threads, self.ask, value))]

    def timeout(self, value):
        return [(value, None)]

    def ask(self, item):
        with urllib.request.urlopen(f"{self.url}/{item}", timeout=30) as answer:
            return float(answer.read())


def define(env, url):
    """Return the stream of items with their prices, in the order of the items."""
    items = env.from_collection(ITEMS, Types.STRING())
    return AsyncDataStream.ordered_wait(items, Prices(url), Time.seconds(60), 100, PRICED)


class Service(http.server.BaseHTTPRequestHandler):
    """The service that the example uses without a URL."""

    def do_GET(self):
        body = str(PRICES[self.path.lstrip("/")]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        """Log nothing."""


def main(url):
    """Print the items with their prices."""
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env, url).print()
    env.execute("async enrichment")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
            threading.Thread(target=server.serve_forever).start()
            try:
                main(f"http://127.0.0.1:{server.server_port}")
            finally:
                server.shutdown()
