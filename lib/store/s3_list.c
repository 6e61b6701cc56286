#include "store/s3_list.h"

#include "base/c_locale.h"
#include "base/compiler.h"
#include "base/parse.h"
#include "base/text.h"

#include <expat.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 16
#define MAX_TEXT 8192 /* a session token of STS has 1 kB and more */

/* Elements and their text, of a document without a DTD. */
struct document {
    XML_Parser parser;
    void (*on_begin)(struct document *document, const char *name);
    void (*on_end)(struct document *document, const char *name, const char *text);
    unsigned depth;
    char text[MAX_TEXT]; /* of the element that is open */
    size_t len;
    bool is_cut; /* the text does not fit */
    sluice_status status;
    struct sluice_err err;
};

static void stop(struct document *document, sluice_status status, const char *why)
{
    if (document->status == SLUICE_OK)
        document->status = sluice_fail(&document->err, status, "%s", why);
    XML_StopParser(document->parser, XML_FALSE);
}

static void XMLCALL on_begin(void *ctx, const XML_Char *name, const XML_Char **attributes)
{
    struct document *document = ctx;
    (void)attributes;
    if (++document->depth > MAX_DEPTH) {
        stop(document, SLUICE_E_CORRUPT, "nested too deep");
        return;
    }
    document->len = 0;
    document->is_cut = false;
    if (document->on_begin)
        document->on_begin(document, name);
}

static void XMLCALL on_end(void *ctx, const XML_Char *name)
{
    struct document *document = ctx;
    if (document->status != SLUICE_OK) /* expat may still call after it was stopped */
        return;
    document->text[document->len] = '\0';
    document->on_end(document, name, document->is_cut ? NULL : document->text);
    document->depth--;
    document->len = 0;
    document->is_cut = false;
}

static void XMLCALL on_text(void *ctx, const XML_Char *text, int len)
{
    struct document *document = ctx;
    if ((size_t)len >= sizeof(document->text) - document->len) {
        document->is_cut = true;
        return;
    }
    memcpy(document->text + document->len, text, (size_t)len);
    document->len += (size_t)len;
}

static void XMLCALL on_doctype(void *ctx, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int has_subset)
{
    (void)name, (void)system, (void)public, (void)has_subset;
    stop(ctx, SLUICE_E_CORRUPT, "has a DTD");
}

static sluice_status parse(struct document *document, const char *xml, size_t len,
                           struct sluice_err *err)
{
    document->parser = XML_ParserCreate("UTF-8");
    if (!document->parser)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to read XML");
    XML_SetUserData(document->parser, document);
    XML_SetElementHandler(document->parser, on_begin, on_end);
    XML_SetCharacterDataHandler(document->parser, on_text);
    XML_SetStartDoctypeDeclHandler(document->parser, on_doctype);
    sluice_status status = SLUICE_OK;
    if (len > INT_MAX)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%zu bytes of XML", len);
    else if (XML_Parse(document->parser, xml, (int)len, 1) != XML_STATUS_OK &&
             document->status == SLUICE_OK)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "no XML: %s",
                             XML_ErrorString(XML_GetErrorCode(document->parser)));
    else if (document->status != SLUICE_OK)
        status = sluice_fail(err, document->status, "%s", document->err.text);
    XML_ParserFree(document->parser);
    return status;
}

/* --- a page of a list --- */

static const char url_encoded[] = "<EncodingType>url</EncodingType>";

struct page_reader {
    struct document document;
    sluice_status (*fn)(void *ctx, const struct sluice_s3_object *object, struct sluice_err *err);
    void *ctx;
    struct sluice_s3_page page;
    bool is_list; /* the root element is right */
    bool in_contents, has_bytes;
    bool is_encoded; /* keys are, as in a URL's query */
    char key[3 * SLUICE_S3_MAX_KEY + 1], etag[256];
    uint64_t bytes;
};

static void begin_page(struct document *document, const char *name)
{
    struct page_reader *reader = SLUICE_CONTAINER_OF(document, struct page_reader, document);
    if (document->depth == 1)
        reader->is_list = strcmp(name, "ListBucketResult") == 0;
    if (document->depth == 1 && !reader->is_list)
        stop(document, SLUICE_E_CORRUPT, "no list of objects");
    if (document->depth != 2)
        return;
    reader->in_contents = strcmp(name, "Contents") == 0;
    reader->key[0] = reader->etag[0] = '\0';
    reader->has_bytes = false;
}

/* Percent-decoding, where a space may be '+' (application/x-www-form-urlencoded).  False: not such
 * a text, or it has a NUL. */
static bool decode_key(char *key)
{
    char *out = key;
    for (const char *at = key; *at; at++) {
        int byte = *at == '+' ? ' ' : (unsigned char)*at;
        if (*at == '%') {
            byte = 0;
            for (int i = 0; i < 2; i++) {
                const char c = sluice_to_lower(*++at);
                if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
                    return false;
                byte = 16 * byte + (c <= '9' ? c - '0' : c - 'a' + 10);
            }
        }
        if (byte == 0)
            return false;
        *out++ = (char)byte;
    }
    *out = '\0';
    return true;
}

static void end_object(struct page_reader *reader)
{
    if (reader->is_encoded && !decode_key(reader->key)) {
        stop(&reader->document, SLUICE_E_CORRUPT, "a key that is not encoded as a URL's");
        return;
    }
    if (!reader->key[0] || strlen(reader->key) > SLUICE_S3_MAX_KEY || !reader->has_bytes) {
        stop(&reader->document, SLUICE_E_CORRUPT, "an object without key or size");
        return;
    }
    const struct sluice_s3_object object = {reader->key, reader->bytes, reader->etag};
    struct sluice_err err = {0};
    const sluice_status status = reader->fn(reader->ctx, &object, &err);
    if (status != SLUICE_OK)
        stop(&reader->document, status, err.text);
}

static void copy(char *out, size_t room, const char *text)
{
    if (!sluice_print(out, room, "%s", text))
        out[0] = '\0';
}

/* A number that is too large is UINT64_MAX: one such object does not spoil the list. */
static bool parse_size(const char *text, uint64_t *bytes)
{
    if (sluice_parse_uint(text, bytes, NULL) == SLUICE_OK)
        return true;
    *bytes = UINT64_MAX;
    return text[0] && strspn(text, "0123456789") == strlen(text);
}

static void end_page(struct document *document, const char *name, const char *text)
{
    struct page_reader *reader = SLUICE_CONTAINER_OF(document, struct page_reader, document);
    struct sluice_s3_page *page = &reader->page;
    if (document->depth == 2 && reader->in_contents) {
        reader->in_contents = false;
        end_object(reader);
    } else if (document->depth == 3 && reader->in_contents && text) {
        if (strcmp(name, "Key") == 0)
            copy(reader->key, sizeof(reader->key), text);
        else if (strcmp(name, "ETag") == 0)
            copy(reader->etag, sizeof(reader->etag), text);
        else if (strcmp(name, "Size") == 0)
            reader->has_bytes = parse_size(text, &reader->bytes);
    } else if (document->depth == 2 && text) {
        if (strcmp(name, "IsTruncated") == 0)
            page->is_truncated = strcmp(text, "true") == 0;
        else if (strcmp(name, "NextContinuationToken") == 0)
            copy(page->continuation, sizeof(page->continuation), text);
    }
}

sluice_status sluice_s3_list_parse(const char *xml, size_t len,
                                   sluice_status (*fn)(void *ctx,
                                                       const struct sluice_s3_object *object,
                                                       struct sluice_err *err),
                                   void *ctx, struct sluice_s3_page *page, struct sluice_err *err)
{
    struct page_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to read a list of objects");
    reader->document.on_begin = begin_page;
    reader->document.on_end = end_page;
    reader->fn = fn;
    reader->ctx = ctx;
    /* It may stand behind the objects. */
    reader->is_encoded = memmem(xml, len, url_encoded, sizeof(url_encoded) - 1) != NULL;
    sluice_status status = parse(&reader->document, xml, len, err);
    if (status == SLUICE_OK && reader->page.is_truncated && !reader->page.continuation[0])
        status = sluice_fail(err, SLUICE_E_CORRUPT, "a part of a list that cannot be continued");
    if (status == SLUICE_OK)
        *page = reader->page;
    free(reader);
    return status;
}

/* --- single fields --- */

struct field_reader {
    struct document document;
    const struct sluice_s3_field *fields;
    size_t num_fields;
};

static void end_field(struct document *document, const char *name, const char *text)
{
    struct field_reader *reader = SLUICE_CONTAINER_OF(document, struct field_reader, document);
    for (size_t i = 0; i < reader->num_fields && text; i++) {
        const struct sluice_s3_field *field = &reader->fields[i];
        if (!field->text[0] && strcmp(field->name, name) == 0)
            copy(field->text, field->room, text);
    }
}

sluice_status sluice_s3_fields_parse(const char *xml, size_t len,
                                     const struct sluice_s3_field *fields, size_t num_fields,
                                     struct sluice_err *err)
{
    struct field_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to read XML");
    for (size_t i = 0; i < num_fields; i++)
        fields[i].text[0] = '\0';
    reader->document.on_end = end_field;
    reader->fields = fields;
    reader->num_fields = num_fields;
    const sluice_status status = parse(&reader->document, xml, len, err);
    free(reader);
    return status;
}

void sluice_s3_error_parse(const char *xml, char code[SLUICE_S3_CODE_BYTES],
                           char message[SLUICE_S3_MESSAGE_BYTES])
{
    const struct sluice_s3_field fields[] = {{"Code", code, SLUICE_S3_CODE_BYTES},
                                             {"Message", message, SLUICE_S3_MESSAGE_BYTES}};
    code[0] = message[0] = '\0';
    const sluice_status status =
        sluice_s3_fields_parse(xml, strlen(xml), fields, SLUICE_ARRAY_LEN(fields), NULL);
    (void)status; /* what comes before a cut is there */
}
