/* A libnvidia-ml.so for tests: two devices, and whatever goes wrong as
 * $FAKE_NVML or any line of the file $FAKE_NVML_NOW says: hang-init, hang-count,
 * no-driver, mismatch, crash; unloaded = the driver has gone from under a library
 * that was loaded; third = a third device is there; mig-0 = the first has MIG on;
 * lose = the second device is lost once the file $FAKE_NVML_LOST exists; old =
 * compiled with -DOLD, a library that lacks a symbol that no Bellows can do without;
 * hang-processes, refuse-processes, endless-processes = asked who is on a device,
 * it hangs, errs, or says for ever that there are more. Else the lines of the file
 * $FAKE_NVML_PROCESSES say who is where: device, pid, bytes, and C, M or G for
 * computing, computing through MPS, or drawing; a pid of 0 is memory of
 * no listed process. $FAKE_NVML_UUID, $FAKE_NVML_MODEL and $FAKE_NVML_GIB say what they are. */
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

static int devices[3] = {0, 1, 2};

static int wants(const char *what)
{
	const char *said = getenv("FAKE_NVML"), *path = getenv("FAKE_NVML_NOW");
	char line[64];
	int found = said && strcmp(said, what) == 0;
	FILE *f = path ? fopen(path, "r") : NULL;
	if (!f) return found;
	while (!found && fscanf(f, "%63s", line) == 1) found = strcmp(line, what) == 0;
	fclose(f);
	return found;
}

static void hang(void) { for (;;) sleep(1000); }

int nvmlInit_v2(void)
{
	if (wants("hang-init")) hang();
	if (wants("no-driver") || wants("unloaded")) return 9;
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
	if (wants("unloaded")) return 999;
	*count = wants("third") ? 3 : 2;
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
	const char *name = getenv("FAKE_NVML_UUID");
	snprintf(uuid, length, "GPU-%s-%d", name ? name : "fake", *(int *)handle);
	return 0;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length)
{
	(void)handle;
	const char *model = getenv("FAKE_NVML_MODEL");
	snprintf(name, length, "%s", model ? model : "NVIDIA Fake");
	return 0;
}

int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *pci)
{
	memset(pci, 0, sizeof *pci);
	pci->bus = 7 + *(int *)handle;
	return 0;
}

int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor)
{
	const char *first = getenv("FAKE_NVML_MINOR");
	if (wants("no-minor")) return 3;
	*minor = (first ? atoi(first) : 0) + *(int *)handle;
	return 0;
}

typedef struct { int device; unsigned pid; unsigned long long bytes; char kind; } guest_t;

/* guest reads the line with that number. */
static int guest(int number, guest_t *g)
{
	const char *path = getenv("FAKE_NVML_PROCESSES");
	FILE *f = path ? fopen(path, "r") : NULL;
	int ok = 0;
	if (!f) return 0;
	for (int i = 0; i <= number; i++)
		ok = fscanf(f, "%d %u %llu %c", &g->device, &g->pid, &g->bytes, &g->kind) == 4;
	fclose(f);
	return ok;
}

typedef struct { unsigned pid; unsigned long long used; unsigned gpu, compute; } process_t;

static int list(void *handle, unsigned *count, process_t *out, char kind)
{
	unsigned room = *count;
	guest_t g;
	if (wants("hang-processes")) hang();
	if (wants("refuse-processes")) return 3;
	if (wants("endless-processes")) { usleep(10000); *count = 1; return 7; }
	*count = 0;
	for (int i = 0; guest(i, &g); i++) {
		if (g.device != *(int *)handle || g.kind != kind || g.pid == 0) continue;
		if (*count < room) {
			memset(&out[*count], 0, sizeof *out);
			out[*count].pid = g.pid;
			out[*count].used = g.bytes;
		}
		++*count;
	}
	return *count > room ? 7 : 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, process_t *p) { return list(h, n, p, 'C'); }
int nvmlDeviceGetComputeRunningProcesses(void *h, unsigned *n, process_t *p) { return list(h, n, p, 'C'); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *h, unsigned *n, process_t *p) { return list(h, n, p, 'M'); }
int nvmlDeviceGetMPSComputeRunningProcesses(void *h, unsigned *n, process_t *p) { return list(h, n, p, 'M'); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned *n, process_t *p) { return list(h, n, p, 'G'); }
int nvmlDeviceGetGraphicsRunningProcesses(void *h, unsigned *n, process_t *p) { return list(h, n, p, 'G'); }

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending)
{
	*current = *pending = *(int *)handle == 0 && wants("mig-0");
	return 0;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius)
{
	(void)sensor;
	*celsius = 50 + *(int *)handle;
	return 0;
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned *percent)
{
	percent[0] = 10 + *(int *)handle;
	percent[1] = 5;
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory)
{
	guest_t g;
	const char *gib = getenv("FAKE_NVML_GIB");
	memory->total = (gib ? strtoull(gib, NULL, 10) : 16) << 30;
	memory->used = 1ULL << 20;
	for (int i = 0; guest(i, &g); i++)
		if (g.device == *(int *)handle) memory->used += g.bytes;
	memory->free = memory->total - memory->used;
	return 0;
}
