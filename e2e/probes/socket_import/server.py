import selectors
import socket

SERVER = socket.create_server(("127.0.0.1", 0))
UDP = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
UDP.bind(("127.0.0.1", 0))
LEFT, RIGHT = socket.socketpair()
SELECTOR = selectors.DefaultSelector()
SELECTOR.register(RIGHT, selectors.EVENT_READ)
