#include "fixture.h"
#include "support/test.h"

/* The original's clients are other people's code, so its messages are written and read here by
 * hand, as protos/data_transfer.proto has them. */

static size_t put_varint(uint8_t *out, uint64_t value)
{
    size_t len = 0;
    for (; value >= 128; value >>= 7)
        out[len++] = (uint8_t)(value | 128);
    out[len++] = (uint8_t)value;
    return len;
}

static void put_request(struct sluice_message *message, const char *fname, int pproc, int size)
{
    uint8_t bytes[1024];
    size_t len = 0;
    bytes[len++] = 1 << 3 | 2;
    len += put_varint(bytes + len, strlen(fname));
    memcpy(bytes + len, fname, strlen(fname));
    len += strlen(fname);
    bytes[len++] = 2 << 3;
    len += put_varint(bytes + len, (uint64_t)(int64_t)pproc);
    bytes[len++] = 3 << 3;
    len += put_varint(bytes + len, (uint64_t)(int64_t)size);
    REQUIRE_OK(sluice_message_append_copy(message, bytes, len, NULL));
}

struct response {
    uint8_t image[160000];
    size_t image_len;
    char label[64], fname[1024], pil_mode[16], dtype[16];
    int pproc, width, height;
    int shape[4];
    size_t num_shape;
};

static void get_text(struct sluice_cursor *cursor, size_t len, char *out, size_t size)
{
    CU_ASSERT_FATAL(len < size);
    CU_ASSERT_FATAL(sluice_cursor_read(cursor, out, len));
    out[len] = '\0';
}

static struct response get_response(const struct sluice_message *message)
{
    struct response r = {0};
    struct sluice_cursor cursor = sluice_cursor_init(message);
    while (sluice_cursor_left(&cursor)) {
        uint64_t tag, value;
        CU_ASSERT_FATAL(sluice_cursor_varint(&cursor, &tag));
        CU_ASSERT_FATAL(sluice_cursor_varint(&cursor, &value));
        switch (tag) {
        case 1 << 3 | 2:
            r.image_len = value;
            CU_ASSERT_FATAL(value <= sizeof(r.image));
            CU_ASSERT_FATAL(sluice_cursor_read(&cursor, r.image, value));
            break;
        case 2 << 3 | 2:
            get_text(&cursor, value, r.label, sizeof(r.label));
            break;
        case 3 << 3:
            r.pproc = (int)(int64_t)value;
            break;
        case 4 << 3 | 2:
            get_text(&cursor, value, r.fname, sizeof(r.fname));
            break;
        case 5 << 3 | 2:
            get_text(&cursor, value, r.pil_mode, sizeof(r.pil_mode));
            break;
        case 6 << 3:
            r.width = (int)value;
            break;
        case 7 << 3:
            r.height = (int)value;
            break;
        case 8 << 3 | 2: { /* packed */
            struct sluice_cursor sub;
            CU_ASSERT_FATAL(sluice_cursor_sub(&cursor, value, &sub));
            while (sluice_cursor_left(&sub)) {
                CU_ASSERT_FATAL(r.num_shape < 4);
                CU_ASSERT_FATAL(sluice_cursor_varint(&sub, &value));
                r.shape[r.num_shape++] = (int)value;
            }
            break;
        }
        case 9 << 3 | 2:
            get_text(&cursor, value, r.dtype, sizeof(r.dtype));
            break;
        default:
            CU_FAIL_FATAL("a field that the proto has not");
        }
    }
    return r;
}

static enum sluice_rpc_code transfer(struct fixture *f, const char *method, const char *fname,
                                     int pproc, int size, struct response *response,
                                     struct sluice_err *err)
{
    struct sluice_message request = {0}, reply = {0};
    put_request(&request, fname, pproc, size);
    const enum sluice_rpc_code code = call(f, method, &request, &reply, err);
    if (code == SLUICE_RPC_OK)
        *response = get_response(&reply);
    sluice_message_clear(&reply);
    return code;
}

static void expect_file(const struct response *r, unsigned id)
{
    size_t len;
    uint8_t *bytes = sluice_test_read_file(image_path(id), &len);
    CU_ASSERT_EQUAL_FATAL(r->image_len, len);
    CU_ASSERT(memcmp(r->image, bytes, len) == 0);
    CU_ASSERT_STRING_EQUAL(r->pil_mode, "");
    CU_ASSERT_STRING_EQUAL(r->dtype, "");
    free(bytes);
}

static void expect_pixels(const struct response *r, int width, int height)
{
    CU_ASSERT_STRING_EQUAL(r->pil_mode, "RGB");
    CU_ASSERT_EQUAL(r->width, width);
    CU_ASSERT_EQUAL(r->height, height);
    CU_ASSERT_EQUAL(r->image_len, (size_t)width * (size_t)height * 3);
    CU_ASSERT_EQUAL(r->num_shape, 0);
}

static void expect_tensor(const struct response *r, int size, float low, float high)
{
    CU_ASSERT_STRING_EQUAL(r->dtype, "float32");
    CU_ASSERT_EQUAL_FATAL(r->num_shape, 3);
    CU_ASSERT_EQUAL(r->shape[0], 3);
    CU_ASSERT_EQUAL(r->shape[1], size);
    CU_ASSERT_EQUAL(r->shape[2], size);
    CU_ASSERT_EQUAL_FATAL(r->image_len, (size_t)size * (size_t)size * 3 * sizeof(float));
    float least = 1e9f, most = -1e9f;
    for (size_t i = 0; i < r->image_len / sizeof(float); i++) {
        float value;
        memcpy(&value, r->image + i * sizeof(value), sizeof(value));
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    CU_ASSERT(least >= low && most <= high);
    CU_ASSERT(most - least > (high - low) / 10);
}

TEST(each_method_answers_in_its_form)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    struct response r = {0};
    CU_ASSERT_EQUAL_FATAL(transfer(&f, SLUICE_METHOD_DT_NOOFF, image_name(3), 7, 0, &r, NULL),
                          SLUICE_RPC_OK);
    expect_file(&r, 3);
    CU_ASSERT_STRING_EQUAL(r.label, "0");
    CU_ASSERT_STRING_EQUAL(r.fname, image_name(3));
    CU_ASSERT_EQUAL(r.pproc, 7); /* echoed */

    /* An absolute path under the root, of the second class. */
    CU_ASSERT_EQUAL_FATAL(transfer(&f, SLUICE_METHOD_DT_PILOFF, image_path(9), 0, 0, &r, NULL),
                          SLUICE_RPC_OK);
    expect_pixels(&r, 224, 224);
    CU_ASSERT_STRING_EQUAL(r.label, "1");
    CU_ASSERT_STRING_EQUAL(r.fname, image_path(9));

    CU_ASSERT_EQUAL_FATAL(transfer(&f, SLUICE_METHOD_DT_ALLOFF, image_name(0), 0, 64, &r, NULL),
                          SLUICE_RPC_OK);
    expect_tensor(&r, 64, -2.2f, 2.7f);
    fixture_end(&f);
}

TEST(sophon_stops_at_the_stage_that_pproc_names)
{
    static const char *const methods[] = {SLUICE_METHOD_DT_SOPHON, SLUICE_METHOD_DT_SMARTOFF};
    struct fixture f = fixture_init();
    fixture_start(&f);
    for (int m = 0; m < 2; m++) {
        for (int pproc = -1; pproc <= 4; pproc++) {
            struct response r = {0};
            CU_ASSERT_EQUAL_FATAL(transfer(&f, methods[m], image_name(2), pproc, 32, &r, NULL),
                                  SLUICE_RPC_OK);
            CU_ASSERT_EQUAL(r.pproc, pproc);
            if (pproc == -1)
                expect_file(&r, 2);
            else if (pproc == 0)
                expect_pixels(&r, 48 + 7 * 2, 40 + 5 * 2); /* as the fixture makes it */
            else if (pproc <= 2)
                expect_pixels(&r, 32, 32);
            else if (pproc == 3)
                expect_tensor(&r, 32, 0, 1);
            else
                expect_tensor(&r, 32, -2.2f, 2.7f);
        }
    }
    fixture_end(&f);
}

TEST(every_call_draws_afresh)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    struct response first = {0};
    CU_ASSERT_EQUAL_FATAL(
        transfer(&f, SLUICE_METHOD_DT_PILOFF, image_name(11), 0, 32, &first, NULL), SLUICE_RPC_OK);
    bool is_other = false;
    /* Ten equal crops out of some thousand would be a wonder. */
    for (int i = 0; i < 10 && !is_other; i++) {
        struct response next = {0};
        CU_ASSERT_EQUAL_FATAL(
            transfer(&f, SLUICE_METHOD_DT_PILOFF, image_name(11), 0, 32, &next, NULL),
            SLUICE_RPC_OK);
        is_other = memcmp(first.image, next.image, first.image_len) != 0;
    }
    CU_ASSERT(is_other);
    fixture_end(&f);
}

TEST(errors_are_a_status_with_a_text)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    char outside[600], hidden[600];
    snprintf(outside, sizeof(outside), "%s/../outside.jpg", image_root());
    /* A file that is there and no sample. */
    snprintf(hidden, sizeof(hidden), "%s/.secret", image_root());
    FILE *secret = fopen(hidden, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(secret);
    fputs("secret", secret);
    fclose(secret);
    const struct {
        const char *method, *fname;
        int pproc, size;
        enum sluice_rpc_code code;
    } cases[] = {
        {SLUICE_METHOD_DT_NOOFF, "ant/none.jpg", 0, 0, SLUICE_RPC_NOT_FOUND},
        {SLUICE_METHOD_DT_NOOFF, "", 0, 0, SLUICE_RPC_NOT_FOUND},
        {SLUICE_METHOD_DT_NOOFF, ".secret", 0, 0, SLUICE_RPC_NOT_FOUND},
        {SLUICE_METHOD_DT_NOOFF, hidden, 0, 0, SLUICE_RPC_NOT_FOUND},
        {SLUICE_METHOD_DT_SOPHON, ".secret", -1, 0, SLUICE_RPC_NOT_FOUND},
        {SLUICE_METHOD_DT_PILOFF, "../outside.jpg", 0, 0, SLUICE_RPC_PERMISSION_DENIED},
        {SLUICE_METHOD_DT_NOOFF, "/etc/passwd", 0, 0, SLUICE_RPC_PERMISSION_DENIED},
        {SLUICE_METHOD_DT_NOOFF, outside, 0, 0, SLUICE_RPC_PERMISSION_DENIED},
        {SLUICE_METHOD_DT_SOPHON, image_name(0), 5, 0, SLUICE_RPC_INVALID_ARGUMENT},
        {SLUICE_METHOD_DT_SOPHON, image_name(0), -2, 0, SLUICE_RPC_INVALID_ARGUMENT},
        {SLUICE_METHOD_DT_ALLOFF, image_name(0), 0, -1, SLUICE_RPC_INVALID_ARGUMENT},
        {SLUICE_METHOD_DT_ALLOFF, image_name(0), 0, 100000, SLUICE_RPC_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct response r;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(
            transfer(&f, cases[i].method, cases[i].fname, cases[i].pproc, cases[i].size, &r, &err),
            cases[i].code);
        CU_ASSERT(err.text[0] != '\0');
    }

    char *json = NULL;
    CHECK_OK(sluice_storage_server_stats_json(f.server, &json, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"refused_paths\":3"));
    free(json);
    fixture_end(&f);
    CU_ASSERT_EQUAL(remove(hidden), 0);
}

TEST(is_not_there_unless_it_was_asked_for)
{
    struct fixture f = fixture_init();
    f.options.has_data_transfer = false;
    fixture_start(&f);
    struct response r;
    CU_ASSERT_EQUAL(transfer(&f, SLUICE_METHOD_DT_NOOFF, image_name(3), 0, 0, &r, NULL),
                    SLUICE_RPC_UNIMPLEMENTED);
    fixture_end(&f);
}

TEST(calls_wait_for_room_rather_than_fail)
{
    struct fixture f = fixture_init();
    f.options.prep_workers = 1;
    f.options.queue = 1;
    fixture_start(&f);
    gate_close(f.gate);
    struct client *clients[8];
    for (int i = 0; i < 8; i++) {
        struct sluice_message request = {0};
        put_request(&request, image_name((unsigned)i), 0, 16);
        clients[i] = client_open(&f, SLUICE_METHOD_DT_PILOFF);
        client_send(clients[i], &request);
        client_half_close(clients[i]);
    }
    gate_await_held(f.gate, 1);
    client_close(clients[5]);
    gate_open(f.gate);
    for (int i = 0; i < 8; i++) {
        if (i == 5)
            continue;
        CU_ASSERT_EQUAL(client_await_done(clients[i], NULL), SLUICE_RPC_OK);
        CU_ASSERT_EQUAL_FATAL(client_num_messages(clients[i]), 1);
        struct response r = get_response(client_message(clients[i], 0));
        expect_pixels(&r, 16, 16);
        CU_ASSERT_STRING_EQUAL(r.fname, image_name((unsigned)i));
        client_close(clients[i]);
    }
    fixture_end(&f);
}
