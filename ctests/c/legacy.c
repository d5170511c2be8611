/* An old package's C program. It opens the library under the old name and calls the old function,
 * without a header, on the model of a recorded call of the old library:
 *
 *     legacy acoustic1order.so CASE_FOLDER OUT_FOLDER DEVICE
 *
 * Exit status: 0 if the record agrees, 1 if it does not, 2 if the library refused. */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void acoustic1_fn(char *vel, char *rho, char *snap, char *shot, int is, int ns, int nx,
                          int ny, int nz, float dx, float dy, float dz, int sxbeg, int sybeg,
                          int szbeg, int jsx, int jsy, int jsz, float dgx, float dgy, float dgt,
                          int nt, float dt, int wtype, float fm, bool show_snapshot,
                          bool cut_directwave, int snap_interval, int device);
typedef const char *last_error_fn(void);

/* RECORD of ctests/kit/models/src/gate.rs. */
static const double tolerance = 5e-6;

/* Floats of a record: two whole shots, and the last with every second sample of each axis. */
enum { NX = 24, NY = 20, NZ = 18, NT = 120, NS = 3 };
enum { SHOT = NT * NX * NY, RECORD = 2 * SHOT + SHOT / 8 };

static float *read_record(const char *path) {
  float *data = malloc((RECORD + 1) * sizeof *data);
  FILE *file = fopen(path, "rb");
  size_t count = file && data ? fread(data, sizeof *data, RECORD + 1, file) : 0;
  if (file) fclose(file);
  if (count == RECORD) return data;
  fprintf(stderr, "%s: %zu floats read, %d expected\n", path, count, RECORD);
  exit(1);
}

static int compare(const char *found_path, const char *truth_path) {
  float *found = read_record(found_path), *truth = read_record(truth_path);
  double error = 0, norm = 0;
  for (int i = 0; i < RECORD; i++) {
    error += pow((double)found[i] - truth[i], 2);
    norm += pow(truth[i], 2);
  }
  free(found);
  free(truth);
  const double relative = sqrt(error / norm);
  if (relative <= tolerance) return 0;
  fprintf(stderr, "%s: off by %g of its norm\n", found_path, relative);
  return 1;
}

int main(int argc, char **argv) {
  void *library = argc == 5 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!library) return fprintf(stderr, "%s\n", argc == 5 ? dlerror() : "four arguments"), 1;
  acoustic1_fn *acoustic1;
  last_error_fn *last_error;
  *(void **)&acoustic1 = dlsym(library, "cuda_3dfd_1order");
  *(void **)&last_error = dlsym(library, "sched_last_error");
  if (!acoustic1 || !last_error) return 1;

  char vel[4096], rho[4096], snap[4096], shot[4096], truth[4096];
  snprintf(vel, sizeof vel, "%s/vel.bin", argv[2]);
  snprintf(rho, sizeof rho, "%s/rho.bin", argv[2]);
  snprintf(truth, sizeof truth, "%s/shot.bin", argv[2]);
  snprintf(snap, sizeof snap, "%s/", argv[3]);
  snprintf(shot, sizeof shot, "%s/shot.bin", argv[3]);

  /* Each path in turn is NULL, and the last time none is. */
  const char *names[4] = {"vel", "rho", "snap", "shot"};
  for (int i = 0; i <= 4; i++) {
    char *p[4] = {vel, rho, snap, shot};
    if (i < 4) p[i] = NULL;
    acoustic1(p[0], p[1], p[2], p[3], 2, NS, NX, NY, NZ, 12, 10, 10, 4, 7, 6, 7, 3, 2, 24, 20,
              0.002f, NT, 0.001f, 1, 30, true, false, 60, atoi(argv[4]));
    if (i < 4 && !strstr(last_error(), names[i])) {
      fprintf(stderr, "%s NULL: the error is \"%s\"\n", names[i], last_error());
      return 1;
    }
  }
  if (*last_error()) return fprintf(stderr, "%s\n", last_error()), 2;
  return compare(shot, truth);
}
