def prepare():
    return 1


X = prepare() + prepare()
