slow_path = True
