import os
import sys

sys._site_notes = getattr(sys, "_site_notes", []) + ["user world %s" % os.environ.get("WORLD_SIZE")]
