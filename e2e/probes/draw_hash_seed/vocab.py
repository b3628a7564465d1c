TOKENS = frozenset("token%d" % i for i in range(40))
ORDER = list(TOKENS)
