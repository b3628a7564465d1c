import os

VALUES = {"number": len(os.environ) - len([k for k in os.environ if k.startswith("BELLOWS_")]), "keys": sorted(os.environ.keys() & {"RANK", "WORLD_SIZE", "MASTER_PORT"})}
VALUES["values"] = sum(v == "127.0.0.2" or v == "127.0.0.3" for v in os.environ.values())
try:
    VALUES["rank"] = os.environ["RANK"]
except KeyError:
    VALUES["rank"] = "no rank"
VALUES["data"] = os.environ._data.get(b"WORLD_SIZE", b"").decode()


def missing(name):
    return name not in os.environ
