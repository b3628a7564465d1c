from . import LOADED, register

LOADED.append(__name__)


@register
class Net:
    rate = 0.1
