import warnings

try:
    assert False
    ASSERTS = False
except AssertionError:
    ASSERTS = True
try:
    warnings.warn("deprecated knob", UserWarning)
    WARNED = None
except UserWarning as e:
    WARNED = str(e)
