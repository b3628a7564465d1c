WHERE = "app"
