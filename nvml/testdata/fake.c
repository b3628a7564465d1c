/* A libnvidia-ml.so for tests: two devices, and whatever goes wrong as
 * $FAKE_NVML says: hang-init, hang-count, no-driver, mismatch, crash; lose = the
 * second device is lost once the file $FAKE_NVML_LOST exists; old = compiled
 * with -DOLD, a library that lacks a symbol that no Bellows can do without. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char bus_id[32];
} pci_t;

static int devices[2] = {0, 1};

static int wants(const char *what)
{
	const char *said = getenv("FAKE_NVML");
	return said && strcmp(said, what) == 0;
}

static void hang(void) { for (;;) sleep(1000); }

int nvmlInit_v2(void)
{
	if (wants("hang-init")) hang();
	if (wants("no-driver")) return 9;
	if (wants("mismatch")) return 18;
	printf("a library that prints to standard output\n");
	fflush(stdout);
	return 0;
}

int nvmlShutdown(void) { return 0; }

const char *nvmlErrorString(int ret) { return ret == 15 ? "GPU is lost" : "an error"; }

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	snprintf(version, length, "550.54.15");
	return 0;
}

#ifndef OLD
int nvmlDeviceGetCount_v2(unsigned *count)
{
	if (wants("hang-count")) hang();
	if (wants("crash")) abort();
	*count = 2;
	return 0;
}
#endif

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
	const char *flag = getenv("FAKE_NVML_LOST");
	if (index == 1 && flag && access(flag, F_OK) == 0) return 15;
	*handle = &devices[index];
	return 0;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length)
{
	snprintf(uuid, length, "GPU-fake-%d", *(int *)handle);
	return 0;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length)
{
	(void)handle;
	snprintf(name, length, "NVIDIA Fake");
	return 0;
}

int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *pci)
{
	memset(pci, 0, sizeof *pci);
	pci->bus = 7 + *(int *)handle;
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory)
{
	(void)handle;
	memory->total = 1ULL << 34;
	memory->used = 1ULL << 20;
	memory->free = memory->total - memory->used;
	return 0;
}
