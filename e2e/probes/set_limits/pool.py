import resource

FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
