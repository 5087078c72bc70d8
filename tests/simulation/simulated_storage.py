"""The directory of a simulated job's checkpoints: a `CheckpointStorage` of files in memory."""


class SimulatedStorage:
    """Files by path; each needs an existing directory.  Its world makes it fail."""

    def __init__(self, world):
        self.world = world
        self.directories = set()
        self.files_by_path = {}
        self.published = {}
        self.num_savepoints = 0

    # As of CheckpointStorage ----------------------------------------------------------------

    @property
    def files(self):
        """Return the file systems: this is the only one."""
        return self

    def of(self, path):
        return self

    def delete_file(self, path):
        self.files_by_path.pop(path, None)

    def create_checkpoint(self, checkpoint_id):
        return self._made(f"/job/{checkpoint_id}")

    def create_savepoint(self, target):
        self.num_savepoints += 1
        return self._made(f"/{target}/{self.num_savepoints}")

    def _made(self, location):
        if self.world.faulty(f"directory {location} cannot be made", 0.02):
            raise OSError("no directory")
        self.directories.add(location)
        return location

    def publish(self, location, metadata):
        if self.world.faulty(f"metadata of {location} cannot be written", 0.02):
            raise OSError("no metadata")
        self.write(location, "_metadata", b"")
        self.published[location] = metadata
        return location

    def withdraw(self, location):
        """Withdraw a pointer, before its files are deleted."""
        self.published.pop(location, None)
        self.delete_file(f"{location}/_metadata")

    def discard(self, location):
        """Delete a directory with its content."""
        self.directories.discard(location)
        self.published.pop(location, None)
        for path in [p for p in self.files_by_path if p.rpartition("/")[0] == location]:
            del self.files_by_path[path]

    def close(self, retained):
        """Do nothing: the storage contains only checkpoints."""

    # For tasks ------------------------------------------------------------------------------

    def write(self, location, name, data):
        if location not in self.directories:
            raise FileNotFoundError(f"{location}/{name}")
        self.files_by_path[f"{location}/{name}"] = data
        return f"{location}/{name}"
