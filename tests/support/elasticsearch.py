"""A server on loopback that follows the bulk protocol of Elasticsearch."""

import http.server
import json
import threading


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        node = self.server.node
        node.requests.append((self.path, dict(self.headers)))
        status = node.statuses.pop(0) if node.statuses else 200
        if status == 0:
            self.close_connection = True
            return
        if status != 200:
            self._answer(status, {"error": {"type": "told", "reason": "so"}, "status": status})
        elif not self.path.endswith("/_bulk"):
            self._answer(404, {"error": "no such path"})
        elif self.headers["Content-Type"] != "application/x-ndjson":
            self._answer(406, {"error": f"Content-Type [{self.headers['Content-Type']}]"})
        else:
            self._answer(200, node.bulk(body))

    def _answer(self, status, answer):
        text = json.dumps(answer).encode()
        self.send_response(status)
        # Elastic's clients reject answers without this header.
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class ElasticNode:
    """A node with documents.

    Attributes:
        documents: The documents by index and id.
        bulks: The operations of each request, as pairs of an operation and an id.
        requests: The path and headers of each request.
        statuses: The statuses of the next requests; 0 closes the connection.
        busy: The ids whose next operation is rejected with status 429, once for each mention.
    """

    def __init__(self):
        self.documents, self.bulks, self.requests = {}, [], []
        self.statuses, self.busy = [], []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.node = self
        self.host = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def of_index(self, index):
        return {key: doc for (name, key), doc in self.documents.items() if name == index}

    def bulk(self, body):
        assert body.endswith(b"\n")
        lines = iter(body.splitlines())
        items, operations = [], []
        for line in lines:
            ((operation, target),) = json.loads(line).items()
            source = None if operation == "delete" else json.loads(next(lines))
            key = target.get("_id") or f"made-{len(self.documents)}"
            operations.append((operation, key))
            outcome = self._apply(operation, target["_index"], key, source)
            items.append({operation: {"_index": target["_index"], "_id": key, **outcome}})
        self.bulks.append(operations)
        return {
            "took": 1,
            "errors": any("error" in i for [i] in map(dict.values, items)),
            "items": items,
        }

    def _apply(self, operation, index, key, source):
        place = (index, key)
        if key in self.busy:
            self.busy.remove(key)
            return _refusal(429, "es_rejected_execution_exception", "queue is full")
        if operation == "delete":
            return {"status": 200 if self.documents.pop(place, None) else 404}
        if operation == "create" and place in self.documents:
            return _refusal(409, "version_conflict_engine_exception", "document already exists")
        if operation == "update":
            assert source["doc_as_upsert"]
            source = {**self.documents.get(place, {}), **source["doc"]}
        if not isinstance(source.get("n", 0), int):
            return _refusal(400, "mapper_parsing_exception", "failed to parse field [n]")
        self.documents[place] = source
        return {"status": 201}


def _refusal(status, kind, reason):
    return {"status": status, "error": {"type": kind, "reason": reason}}
