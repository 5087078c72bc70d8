"""The directory of a simulated job's checkpoints, and the thread that works on it."""


class SimulatedStorage:
    """Files by path; each lies in a directory that must be there."""

    def __init__(self):
        self.directories = set()
        self.files = {}
        self.published = {}

    def make(self, location):
        self.directories.add(location)

    def write(self, location, name, data):
        if location not in self.directories:
            raise FileNotFoundError(f"{location}/{name}")
        self.files[f"{location}/{name}"] = data
        return f"{location}/{name}"

    def publish(self, location, metadata):
        self.write(location, "_metadata", b"")
        self.published[location] = metadata

    def delete(self, path):
        self.files.pop(path, None)

    def discard(self, location):
        """Deletes a directory with all that is in it."""
        self.directories.discard(location)
        self.published.pop(location, None)
        for path in [path for path in self.files if path.rpartition("/")[0] == location]:
            del self.files[path]
