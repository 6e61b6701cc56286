/* ~/.aws/credentials and ~/.aws/config: any text is a profile, or a failure that names a line. */

#include "store/s3_profile.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sluice_s3_profile profile;
    for (int is_config = 0; is_config < 2; is_config++) {
        struct sluice_err err = {{0}};
        memset(&profile, 0, sizeof(profile));
        if (sluice_s3_profile_parse((const char *)data, size, "default", is_config, &profile,
                                    &err) != SLUICE_OK)
            FUZZ_CHECK(strncmp(err.text, "line ", 5) == 0);
        FUZZ_CHECK(strlen(profile.key_id) < sizeof(profile.key_id) &&
                   strlen(profile.secret) < sizeof(profile.secret) &&
                   strlen(profile.token) < sizeof(profile.token) &&
                   strlen(profile.region) < sizeof(profile.region));
        FUZZ_CHECK(profile.is_found || (!profile.key_id[0] && !profile.secret[0]));
    }
    return 0;
}
