import settings

SIZE = settings.SIZE
