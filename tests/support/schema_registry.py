"""A schema registry that answers as Confluent's does, over HTTP."""

import http.server
import json
import threading


class Registry:
    """Stores schemas in memory.

    Attributes:
        url: Its URL.
        asked: The requests, as method and path.
        refusals: Statuses of the next requests.
        headers: The headers of the last request.
    """

    def __init__(self):
        self.schemas, self.subjects = {}, {}
        self.asked, self.refusals, self.headers = [], [], {}
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.answer(registry.find)

            def do_POST(self):
                self.answer(registry.register)

            def answer(self, made):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                registry.asked.append((self.command, self.path))
                registry.headers = dict(self.headers)
                if registry.refusals:
                    status, found = registry.refusals.pop(0), {"message": "refused"}
                else:
                    status, found = made(self.path.strip("/").split("/"), body)
                text = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def add(self, subject, schema, **more):
        """Return the number of a schema; assign one if it has none."""
        for number, found in self.schemas.items():
            if found == {"schema": schema, **more}:
                return number
        number = len(self.schemas) + 1
        self.schemas[number] = {"schema": schema, **more}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def find(self, path, _):
        match path:
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                return 200, self.schemas[self.subjects[subject][int(version) - 1]]
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def register(self, path, body):
        match path:
            case ["subjects", subject, "versions"]:
                schema = json.loads(body)["schema"]
                if json.loads(schema).get("name") == "Forbidden":
                    return 409, {"message": "Schema being registered is incompatible"}
                return 200, {"id": self.add(subject, schema)}
        return 404, {}

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
