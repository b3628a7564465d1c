import config

WARM_STEPS = 10 * config.ROUND
