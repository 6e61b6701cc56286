#ifndef SLUICE_STORAGE_SERVER_ISOLATION_DECODER_PROCESS_H
#define SLUICE_STORAGE_SERVER_ISOLATION_DECODER_PROCESS_H

#include "base/error.h"
#include "storage_server/isolation/decoder_protocol.h"

#include <stdint.h>

/* The fork server and the decoders: the processes behind decoders.h.
 *
 * offload_server forks the fork server before it has threads, listeners, secrets or open files, so
 * that decoders, the fork server's children, inherit none of them.  The fork server reads no files
 * and no images.  A decoder holds its socket and the region, and may make only the system calls of
 * sluice_syscall_filter_install_decoder().  Its memory is limited, and the system kills it before
 * other processes when memory is short.  It ends with the fork server, which ends with the server.
 *
 * Both processes ignore the signals that ask for an end; only the server follows them.
 *
 * Threads: open on the main thread, before there are others. */

struct sluice_decoders;

/* The main loop of a decoder, in its own process, over its socket and its region. */
typedef void sluice_decoder_serve_fn(int socket, uint8_t *region,
                                     const struct sluice_decoder_limits *limits);

/* Installs the filter of sluice_syscall_filter_install_decoder(), then answers requests until the
 * socket is closed. */
void sluice_decoder_process_serve(int socket, uint8_t *region,
                                  const struct sluice_decoder_limits *limits);

/* Starts the fork server; its decoders run `serve`, which tests replace.  The process must have set
 * PR_SET_NO_NEW_PRIVS.  Close *decoders with sluice_decoders_close(). */
SLUICE_MUST_USE sluice_status sluice_decoder_process_open(sluice_decoder_serve_fn *serve,
                                                          struct sluice_decoders **decoders,
                                                          struct sluice_err *err);

#endif
