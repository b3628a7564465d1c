SINKS = []


def report(x):
    return [sink + str(x) for sink in SINKS]
