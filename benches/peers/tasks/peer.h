// Interface of the peers: each shim implements it with the calls of one peer. One thread makes all
// calls; `work` runs on the peer's threads.
#ifndef PEER_H
#define PEER_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*work_fn)(void *user);
typedef void (*body_fn)(size_t index, void *user);

// Starts the peer on two cores, in the form that is usual for it.
void peer_init(void);
void peer_fini(void);

// Submits a task without a handle; waits for all of these.
void peer_submit(work_fn work, void *user);
void peer_wait_all(void);

// Submits a task with a handle; the wait releases the handle.
void *peer_submit_handle(work_fn work, void *user);
void peer_wait(void *handle);

// Runs a parallel loop, one element at a time as far as the peer allows. Returns 0 if the peer has
// no loops.
int peer_for(size_t count, body_fn body, void *user);

#ifdef __cplusplus
}
#endif
#endif
