WHERE = "workdir"
