// What every peer of the comparison does, in its own words behind one interface.
// One thread calls all of it; `work` runs on the peer's threads.
#ifndef PEER_H
#define PEER_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*work_fn)(void *user);
typedef void (*body_fn)(size_t index, void *user);

// Two cores are to be used, in the way that is natural for the peer.
void peer_init(void);
void peer_fini(void);

// Fire and forget, and a wait for all that were fired.
void peer_submit(work_fn work, void *user);
void peer_wait_all(void);

// A handle each; the wait gives the handle back.
void *peer_submit_handle(work_fn work, void *user);
void peer_wait(void *handle);

// A parallel loop, one element at a time as far as the peer allows. 0: the peer has none.
int peer_for(size_t count, body_fn body, void *user);

#ifdef __cplusplus
}
#endif
#endif
