#ifndef SLUICE_TESTS_STORE_WEB_SERVER_H
#define SLUICE_TESTS_STORE_WEB_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/* A web server of this process: objects in memory with ETags, ranges and If-Match, at
 * http://127.0.0.1:PORT/folder/KEY.  It lists them as S3 does ("?list-type=2", pages of 4), and as
 * /folder/list.txt.  It misbehaves as it is told to.
 *
 * Threads: one for each connection; the functions are for the test's. */

int web_open(void); /* once; the port */

void web_clear(void); /* no objects, no faults, and the counts are 0 */
void web_put(const char *key, const void *data, size_t len);
void web_remove(const char *key);

/* What is wrong with the next answers for an object; `times` 0: nothing any more. */
void web_slow_down(const char *key);
void web_list_as_absurd(const char *key); /* in lists its size is 2^63 - 1; NULL: none */
void web_break_off(const char *key, unsigned times);
void web_hang(const char *key);                      /* amid the body, until web_hang(NULL) */
void web_hang_some(const char *key, unsigned times); /* the same for so many bodies, then no more */
void web_wait_for_hang(void);
void web_fail(unsigned code, const char *body, unsigned times); /* whatever is asked for */
void web_forget_etags(bool is_forgetful);                       /* no ETag, but Last-Modified */
/* What a 206 has, and says in Content-Range, beside what was asked for. */
enum web_lie { WEB_HONEST, WEB_OTHER_RANGE, WEB_LESS, WEB_MORE, WEB_NO_RANGE };
void web_lie_about_ranges(enum web_lie lie);
void web_repeat_pages(bool repeats);      /* lists of S3 go on with a page that was there */
void web_ignore_ranges(bool is_ignorant); /* the whole object, with 200 */
/* Changes the object after so many bytes of a body that then breaks off. */
void web_change_amid(const char *key, const void *data, size_t len);

struct web_counts {
    unsigned requests, connections;
    char authorization[512], token[512], range[64], match[128], query[512], body[4096]; /* last */
};
struct web_counts web_count(void);

#endif
