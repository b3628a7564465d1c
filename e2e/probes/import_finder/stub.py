VALUE = "on disk"
