import logging
import logging.handlers
import os

RANK = os.environ.get("RANK", "none")
FILE = "train-%s.log" % RANK
logging.basicConfig(level=logging.INFO if RANK == "0" else logging.WARNING, format="%(name)s %(message)s",
                    handlers=[logging.FileHandler(FILE), logging.handlers.MemoryHandler(100)])
logging.getLogger("train").setLevel(logging.INFO)
logging.getLogger("train.setup").info("configured for rank %s", RANK)
ADAPTER = logging.LoggerAdapter(logging.getLogger("train"), {"rank": RANK})
