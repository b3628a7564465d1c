import os
import sys

sys._site_notes = getattr(sys, "_site_notes", []) + ["site rank %s" % os.environ.get("RANK")]
