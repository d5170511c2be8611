/*
 * gpusched: the entry points of the old packages, for programs that called those.
 */

#ifndef GPUSCHED_LEGACY_H
#define GPUSCHED_LEGACY_H

/* Generated from src/ffi by `UPDATE=1 cargo test --test it header`; not to be edited. */

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Computes shots of the first-order acoustic equation with the interface of acoustic1order.so:
 * argument list, numerics and files are those of the old library, see docs/legacy.md. `device` is
 * ignored, unless GPUSCHED_LEGACY_DEVICE is "strict".
 *
 * Returns nothing. A failure is logged at level 1, is in sched_last_error, and leaves no partial
 * file. sched_last_error is "" after a successful call.
 */
void cuda_3dfd_1order(const char *vel,
                      const char *rho,
                      const char *snap,
                      const char *shot,
                      int is,
                      int ns,
                      int nx,
                      int ny,
                      int nz,
                      float dx,
                      float dy,
                      float dz,
                      int sxbeg,
                      int sybeg,
                      int szbeg,
                      int jsx,
                      int jsy,
                      int jsz,
                      float dgx,
                      float dgy,
                      float dgt,
                      int nt,
                      float dt,
                      int wtype,
                      float fm,
                      bool show_snapshot,
                      bool cut_directwave,
                      int snap_interval,
                      int device);

/**
 * Computes shot `is` of the second-order acoustic equation with the interface of
 * acoustic2order.so. `kt`, `cut_directwave` and `snap_interval` are ignored. Everything else as
 * for cuda_3dfd_1order.
 */
void cuda_3dfd(const char *vel,
               const char *snap,
               const char *shot,
               int is,
               int ns,
               int nx,
               int ny,
               int nz,
               float dx,
               float dy,
               float dz,
               int sxbeg,
               int sybeg,
               int szbeg,
               int jsx,
               int jsy,
               int jsz,
               float dgx,
               float dgy,
               float dgt,
               int nt,
               int kt,
               float dt,
               float fm,
               bool show_snapshot,
               bool cut_directwave,
               int snap_interval,
               int device);

/**
 * Computes shots of the equation of media with a vertical symmetry axis with the interface of
 * acoustic1vti.so. The wavelet is a Ricker. Everything else as for cuda_3dfd_1order.
 */
void cuda_3dfd_vti(const char *vel,
                   const char *rho,
                   const char *epsilon,
                   const char *delta,
                   const char *snap,
                   const char *shot,
                   int is,
                   int ns,
                   int nx,
                   int ny,
                   int nz,
                   float dx,
                   float dy,
                   float dz,
                   int sxbeg,
                   int sybeg,
                   int szbeg,
                   int jsx,
                   int jsy,
                   int jsz,
                   float dgx,
                   float dgy,
                   float dgt,
                   int nt,
                   float dt,
                   float fm,
                   bool show_snapshot,
                   bool cut_directwave,
                   int snap_interval,
                   int device);

/**
 * Computes a shot of the equation of media with a tilted symmetry axis with the interface of
 * acoustic1tti.so. The wavelet is a Ricker. `rho`, `is`, `ns`, `jsx`, `jsy`, `jsz`,
 * `show_snapshot` and `snap_interval` are ignored. Everything else as for cuda_3dfd_1order.
 *
 * Returns 0, or 1 after a failure.
 */
int cuda_3dfd_tti(const char *vel,
                  const char *rho,
                  const char *epsilon,
                  const char *delta,
                  const char *theta,
                  const char *psi,
                  const char *snap,
                  const char *shot,
                  int is,
                  int ns,
                  int nx,
                  int ny,
                  int nz,
                  float dx,
                  float dy,
                  float dz,
                  int sxbeg,
                  int sybeg,
                  int szbeg,
                  int jsx,
                  int jsy,
                  int jsz,
                  float dgx,
                  float dgy,
                  float dgt,
                  int nt,
                  float dt,
                  float fm,
                  bool show_snapshot,
                  bool cut_directwave,
                  int snap_interval,
                  int device);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GPUSCHED_LEGACY_H */
