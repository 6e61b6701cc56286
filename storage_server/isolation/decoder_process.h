#ifndef SLUICE_STORAGE_SERVER_ISOLATION_DECODER_PROCESS_H
#define SLUICE_STORAGE_SERVER_ISOLATION_DECODER_PROCESS_H

#include "base/error.h"
#include "storage_server/isolation/decoder_protocol.h"

#include <stdint.h>

/* The fork server and the decoders: the processes behind decoders.h.
 *
 * The fork server is forked from offload_server before that has threads, listeners, secrets or open
 * files, so that decoders, its children, inherit none.  It reads no files and no pictures.  A
 * decoder holds its socket and the region, and may make no system call but those of
 * sluice_syscall_filter_install_decoder(); its memory is limited, the system ends it before others
 * when memory is short, and it ends with the fork server, which ends with the server.
 *
 * Signals that ask for an end are the server's to follow: neither process listens to them.
 *
 * Threads: open on the main thread, before there are others. */

struct sluice_decoders;

/* The main loop of a decoder, in its own process, over its socket and its region. */
typedef void sluice_decoder_serve_fn(int socket, uint8_t *region,
                                     const struct sluice_decoder_limits *limits);

/* Gives up what sluice_syscall_filter_install_decoder() says, then answers requests until the
 * socket is closed. */
void sluice_decoder_process_serve(int socket, uint8_t *region,
                                  const struct sluice_decoder_limits *limits);

/* Starts the fork server; `serve`, in tests of their own, is what its decoders do.  The process has
 * PR_SET_NO_NEW_PRIVS already.  *decoders is to be closed with sluice_decoders_close(). */
SLUICE_MUST_USE sluice_status sluice_decoder_process_open(sluice_decoder_serve_fn *serve,
                                                          struct sluice_decoders **decoders,
                                                          struct sluice_err *err);

#endif
