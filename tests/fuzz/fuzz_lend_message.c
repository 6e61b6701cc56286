/* The messages between an owner and a borrower of a GPU: what passes is within its bounds, and what
 * does not has a reason in words. */

#include "lend/channel.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_err err = {{0}};
    struct sluice_lend_hello hello;
    if (sluice_lend_hello_parse(data, size, &hello, &err) == SLUICE_OK)
        FUZZ_CHECK(size == sizeof(hello) && hello.version == SLUICE_LEND_VERSION);
    else
        FUZZ_CHECK(err.text[0]);

    struct sluice_lend_answer answer;
    err.text[0] = 0;
    if (sluice_lend_answer_parse(data, size, &answer, &err) == SLUICE_OK)
        FUZZ_CHECK(size == sizeof(answer) && answer.status == SLUICE_OK &&
                   answer.slot < SLUICE_LEND_SLOTS && memchr(answer.text, 0, sizeof(answer.text)));
    else
        FUZZ_CHECK(err.text[0]);
    return 0;
}
