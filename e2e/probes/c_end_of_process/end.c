#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[100];
static FILE *kept;

static void note(const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd >= 0 && write(fd, text, strlen(text)) > 0)
        close(fd);
}

static void at_exit(void) { note("handler\n"); }

void begin(const char *name) {
    snprintf(path, sizeof path, "%s", name);
    atexit(at_exit);
}

void buffer(void) {
    kept = fopen(path, "a");
    fputs("buffered\n", kept);
}

__attribute__((destructor)) static void destruct(void) {
    if (path[0])
        note("destructor\n");
}
