#include <stdlib.h>
#include <unistd.h>

static int owner, devices = -1, inits;

int cuInit(unsigned flags) {
    (void)flags;
    inits++;
    if (owner && owner != getpid())
        return 3; /* CUDA_ERROR_NOT_INITIALIZED: a context does not survive a fork */
    if (!owner) {
        const char *v = getenv("CUDA_VISIBLE_DEVICES");
        owner = getpid();
        devices = v && *v ? 1 : 0;
        for (; v && *v; v++)
            devices += *v == ',';
    }
    return devices ? 0 : 100;
}

int cuDeviceGetCount(int *n) {
    if (owner != getpid())
        return 3;
    *n = devices;
    return 0;
}

int cuCtxCreate_v2(void **ctx, unsigned flags, int device) {
    (void)flags;
    if (owner != getpid())
        return 3;
    *ctx = &owner;
    return device < devices ? 0 : 101;
}

int testInits(void) { return inits; }
