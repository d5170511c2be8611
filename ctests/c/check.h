/* A condition that ends the function with 1 and tells where, and the last error, unless it holds. */
#include <stdio.h>

#include "gpusched.h"

#define CHECK(what)                                                       \
  do {                                                                    \
    if (!(what)) {                                                        \
      fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what, sched_last_error()); \
      return 1;                                                           \
    }                                                                     \
  } while (0)
