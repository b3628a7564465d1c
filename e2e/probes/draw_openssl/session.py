import ssl

CONTEXT = ssl.create_default_context()
KEY = ssl.RAND_bytes(16).hex()
