import warnings

try:
    warnings.warn("gone soon", DeprecationWarning)
    RAISED = None
except DeprecationWarning as e:
    RAISED = str(e)
warnings.warn("slow kernel")
warnings.warn("no accelerator found")


def hint():
    warnings.warn("use the new one", UserWarning, stacklevel=1)
