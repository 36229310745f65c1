// SPDX-License-Identifier: Apache-2.0
// What carries bytes between processes of several hosts that have found each other: UCX, over
// networks that programs drive themselves. A library by itself, which libftcoll.so loads when it is
// asked to: without UCX there is all the rest. Called under one lock; nothing blocks.
//
// Left out, unless FTCOLL_UCX_TLS says otherwise, are UCX's own TCP, which takes connections of
// anybody, and shared memory, in which one who dies can block others (decision 0116).
#ifndef FTCOLL_CARRIER_H
#define FTCOLL_CARRIER_H

#include <stddef.h>
#include <stdint.h>

typedef struct ftc_carrier ftc_carrier;
typedef struct ftc_end ftc_end;

// Versions of this table; a library with another one is not used.
enum { FTC_CARRIER_ABI = 2 };

typedef struct {
  uint32_t abi;
  // Null: it cannot be used here, and why.
  ftc_carrier *(*open)(char *why, size_t room);
  // Frees all ends as well.
  void (*close)(ftc_carrier *carrier);
  // Becomes readable when there is something to do, if arm() has said so before.
  int (*event_fd)(ftc_carrier *carrier);
  // 0: event_fd() may be waited at; 1: there is something to do at once.
  int (*arm)(ftc_carrier *carrier);
  // Does some of what can be done; 0: all of it.
  int (*progress)(ftc_carrier *carrier);
  // What another process needs for connect().
  const void *(*address)(ftc_carrier *carrier, size_t *bytes);
  // Null: there is no way to that process. The other one connects as well.
  ftc_end *(*connect)(ftc_carrier *carrier, const void *address, size_t bytes, size_t token);
  // Copies. 0; -1: nothing will arrive any more.
  int (*send)(ftc_end *end, const void *data, size_t bytes);
  // Bytes that wait here to be sent, by all ends that are not dropped. There is no event when they
  // can be: progress() has to be called.
  size_t (*waiting)(const ftc_carrier *carrier);
  // How many bytes have come, at most `room` of them; 0: none now; -1: none any more.
  ptrdiff_t (*receive)(ftc_end *end, void *data, size_t room);
  // Tokens of ends of which something has come since, or that have failed; how many. Less than
  // there is room for: no others.
  size_t (*ready)(ftc_carrier *carrier, size_t *tokens, size_t room);
  void (*drop)(ftc_end *end);
} ftc_carrier_table;

#ifdef __cplusplus
extern "C"
#endif
__attribute__((visibility("default"))) const ftc_carrier_table *ftc_carrier_find(void);

#endif
