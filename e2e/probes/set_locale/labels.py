import locale

LOCALE = locale.setlocale(locale.LC_CTYPE)
ENCODING = locale.getpreferredencoding(False)
TEXT = locale.format_string("%.2f", 1234.5, grouping=True)
