import jax
import settings

jax.config.update("jax_default_matmul_precision", "float32")
KEY = jax.random.PRNGKey(settings.SEED)
