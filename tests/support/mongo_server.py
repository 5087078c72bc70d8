"""A server on loopback that implements MongoDB's wire protocol, with collections of mongomock.

It implements the requests that the connector sends: writes, ``find`` queries, and change streams
with resume tokens.
"""

import contextlib
import datetime
import itertools
import socket
import socketserver
import struct
import threading

import bson
import mongomock

_HEADER = struct.Struct("<iiii")
_OP_REPLY, _OP_QUERY, _OP_MSG = 1, 2004, 2013
_NAIVE = bson.CodecOptions(uuid_representation=bson.binary.UuidRepresentation.STANDARD)


class _Connection(socketserver.StreamRequestHandler):
    def handle(self):
        server = self.server.mongo
        server.sockets.add(self.connection)
        with contextlib.suppress(OSError, EOFError):
            while True:
                length, request_id, _, kind = _HEADER.unpack(self._exactly(_HEADER.size))
                body = self._exactly(length - _HEADER.size)
                if kind == _OP_QUERY:  # the first greeting
                    prefix = struct.pack("<iqii", 8, 0, 0, 1)
                    self._send(request_id, _OP_REPLY, prefix + bson.encode(server.hello()))
                    continue
                answer = server.answer(_command(body))
                self._send(
                    request_id, _OP_MSG, b"\0\0\0\0\0" + bson.encode(answer, codec_options=_NAIVE)
                )
        server.sockets.discard(self.connection)

    def _exactly(self, size):
        found = self.rfile.read(size)
        if len(found) < size:
            raise EOFError
        return found

    def _send(self, request_id, kind, body):
        header = _HEADER.pack(_HEADER.size + len(body), 0, request_id, kind)
        self.connection.sendall(header + body)


def _command(body):
    """Return the command in an OP_MSG, with the documents of its sequences inserted."""
    command, position = {}, 4
    while position < len(body):
        section, position = body[position], position + 1
        size = struct.unpack_from("<i", body, position)[0]
        if section == 0:
            command |= bson.decode(body[position : position + size], _NAIVE)
        else:
            name_end = body.index(b"\0", position + 4)
            name = body[position + 4 : name_end].decode()
            documents = bson.decode_all(body[name_end + 1 : position + size], _NAIVE)
            command[name] = documents
        position += size
    return command


class _Failed(Exception):
    def __init__(self, code, message, *labels):
        super().__init__(message)
        self.answer = {"ok": 0, "code": code, "errmsg": message, "errorLabels": list(labels)}


class MongoServer:
    """Databases in memory.

    Attributes:
        commands: The names of the executed commands.
        failing: Answers to the next writes: a code, or None to close the connection.
        first_token: The number of the first change that the server still holds.
    """

    def __init__(self):
        self.commands, self.failing, self.sockets, self.first_token = [], [], set(), 0
        self._store = mongomock.MongoClient()
        self._changes, self._cursors = [], {}
        self._numbers = itertools.count(1)
        self._condition = threading.Condition(threading.RLock())
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Connection)
        self._server.mongo, self._server.daemon_threads = self, False
        self.uri = f"mongodb://127.0.0.1:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self):
        self.drop_connections()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def drop_connections(self):
        for connection in list(self.sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def documents(self, collection, database="shop"):
        with self._condition:
            return list(self._store[database][collection].find({}).sort("_id", 1))

    def hello(self):
        return {
            "ok": 1,
            "ismaster": True,
            "isWritablePrimary": True,
            "helloOk": True,
            "minWireVersion": 0,
            "maxWireVersion": 21,
            "maxBsonObjectSize": 1 << 24,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
        }

    def answer(self, command):
        name = next(iter(command))
        method = getattr(self, f"_{name.lower()}", None)
        with self._condition:
            self.commands.append(name)
            try:
                return {"ok": 1, **(method(command) if method else {})}
            except _Failed as failed:
                return failed.answer

    # Commands -------------------------------------------------------------------------------------

    def _hello(self, _):
        return self.hello()

    _ismaster = _hello

    def _fail(self):
        if not self.failing:
            return None
        code = self.failing.pop(0)
        if code is None:
            raise OSError("told to")
        return {"index": 0, "code": code, "errmsg": "told to", "keyPattern": {"n": 1}}

    def _update(self, command):
        collection = self._store[command["$db"]][command["update"]]
        failed = self._fail()
        if failed:
            return {"n": 0, "nModified": 0, "writeErrors": [failed]}
        upserted = []
        for index, each in enumerate(command["updates"]):
            before = collection.find_one(each["q"])
            operators = each["u"].keys() <= {"$set", "$setOnInsert", "$inc"}
            change = collection.update_one if operators else collection.replace_one
            change(each["q"], each["u"], upsert=each.get("upsert", False))
            if before is None:
                upserted.append({"index": index, "_id": each["q"]["_id"]})
            after = collection.find_one(each["q"])
            self._note(command["$db"], command["update"], "update" if before else "insert", after)
        answer = {"n": len(command["updates"]), "nModified": 0}
        return {**answer, "upserted": upserted} if upserted else answer

    def _insert(self, command):
        self._store[command["$db"]][command["insert"]].insert_many(command["documents"])
        for document in command["documents"]:
            self._note(command["$db"], command["insert"], "insert", document)
        return {"n": len(command["documents"])}

    def _delete(self, command):
        collection = self._store[command["$db"]][command["delete"]]
        count = 0
        for each in command["deletes"]:
            found = collection.find_one_and_delete(each["q"])
            if found is not None:
                count += 1
                self._note(command["$db"], command["delete"], "delete", found)
        return {"n": count}

    def _drop(self, command):
        self._store[command["$db"]].drop_collection(command["drop"])
        self._note(command["$db"], command["drop"], "drop", {"_id": None})
        return {}

    def _note(self, database, collection, kind, document):
        now = datetime.datetime.now(datetime.UTC)
        change = {
            "_id": {"_data": str(len(self._changes) + 1)},
            "operationType": kind,
            "clusterTime": bson.Timestamp(now, 1),
            "ns": {"db": database, "coll": collection},
            "documentKey": {"_id": document["_id"]},
        }
        if kind != "delete":
            change["fullDocument"] = dict(document)
        self._changes.append(change)
        self._condition.notify_all()

    def _find(self, command):
        collection = self._store[command["$db"]][command["find"]]
        criteria = dict(command.get("filter", {}))
        if "min" in command:
            criteria["_id"] = {"$gte": command["min"]["_id"]}
        found = collection.find(criteria, command.get("projection"))
        found = list(found.sort(list(command.get("sort", {"_id": 1}).items())))
        return self._first(command, found, command.get("batchSize", 101))

    def _first(self, command, documents, size):
        number, namespace = 0, f"{command['$db']}.{command.get('find', 'c')}"
        first, rest = documents[:size], documents[size:]
        if rest:
            number = next(self._numbers)
            self._cursors[number] = rest
        return {"cursor": {"id": bson.Int64(number), "ns": namespace, "firstBatch": first}}

    def _aggregate(self, command):
        options = command["pipeline"][0]["$changeStream"]
        token = options.get("resumeAfter")
        start = len(self._changes) if token is None else int(token["_data"])
        if start < self.first_token:
            raise _Failed(286, "Resume of change stream was not possible")
        number = next(self._numbers)
        place = {"db": command["$db"], "coll": command["aggregate"]}
        self._cursors[number] = [start, place]
        namespace = f"{place['db']}.{place['coll']}"
        cursor = {"id": bson.Int64(number), "ns": namespace, "firstBatch": []}
        return {"cursor": {**cursor, "postBatchResumeToken": {"_data": str(start)}}}

    def _getmore(self, command):
        number = command["getMore"]
        cursor = self._cursors.get(number)
        if cursor is None:
            raise _Failed(43, "cursor not found")
        answer = {"id": bson.Int64(number), "ns": f"{command['$db']}.{command['collection']}"}
        if not isinstance(cursor[0], int):
            size = command.get("batchSize", 1000)
            self._cursors[number] = rest = cursor[size:]
            answer["id"] = bson.Int64(number if rest else 0)
            return {"cursor": {**answer, "nextBatch": cursor[:size]}}
        start, place = cursor
        wait_s = command.get("maxTimeMS", 1000) / 1000
        self._condition.wait_for(lambda: len(self._changes) > start, wait_s)
        found = [each for each in self._changes[start:] if each["ns"] == place]
        cursor[0] = len(self._changes)
        token = {"_data": str(cursor[0])}
        return {"cursor": {**answer, "nextBatch": found, "postBatchResumeToken": token}}

    def _killcursors(self, command):
        for number in command["cursors"]:
            self._cursors.pop(number, None)
        return {"cursorsKilled": command["cursors"]}
