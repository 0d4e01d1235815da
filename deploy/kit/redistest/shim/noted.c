/*
 * Notes what reached the disk. Put before the C library by LD_PRELOAD, it
 * writes a line to the file NOTED names after each fsync and fdatasync that
 * succeeded: the file's inode, and its size as it was before the call. What was
 * written while the call ran may or may not be on the disk, so it isn't counted.
 * SLOW is how many milliseconds longer each of them takes, as on a busy disk.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int sync_func(int);

static void linger(void) {
	const char *slow = getenv("SLOW");
	if (slow != NULL)
		usleep((useconds_t)atoi(slow) * 1000);
}

static int noted(const char *name, int fd) {
	struct stat before;
	int known = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
	sync_func *next = (sync_func *)dlsym(RTLD_NEXT, name);
	linger();
	int result = next(fd);
	if (result != 0 || !known)
		return result;
	char line[64];
	int length = snprintf(line, sizeof line, "%llu %lld\n", (unsigned long long)before.st_ino, (long long)before.st_size);
	int notes = open(getenv("NOTED"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	/* One write of a short line to a file opened to append is never torn. */
	if (notes < 0 || write(notes, line, length) != length)
		abort(); /* a note that is missing would be taken for lost data */
	close(notes);
	return result;
}

int fsync(int fd) { return noted("fsync", fd); }
int fdatasync(int fd) { return noted("fdatasync", fd); }
