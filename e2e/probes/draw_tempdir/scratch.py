import tempfile

FOLDER = tempfile.TemporaryDirectory(prefix="shards-")
