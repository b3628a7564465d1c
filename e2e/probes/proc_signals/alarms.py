import signal

RECEIVED = []


def on_usr1(number, frame):
    RECEIVED.append(number)


signal.signal(signal.SIGUSR1, on_usr1)
signal.alarm(500)
