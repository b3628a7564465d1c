# command: {python} -m trainer.main --lr 0.25
"""A package that is run with -m, with relative imports and a __main__ of its own."""
# The package lies beside this file; FACT … value=… lines come from trainer/main.py.
