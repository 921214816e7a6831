/* A tool that NVTX loads through NVTX_INJECTION64_PATH: writes every push, pop and domain to a file.
 *
 * One line an event, fields parted by tabs, to the file that NVTX_RECORD names, process id appended:
 *     domain  <handle> <name>
 *     push    <domain's handle> <thread> <message> <payload, or ->
 *     pop     <domain's handle> <thread>
 * Written after the NVTX 3 documentation of injection libraries: modules, callback ids and the layout of
 * nvtxEventAttributes_t are fixed parts of its binary interface.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ETID_CALLBACKS = 1, MODULE_CORE2 = 5 };
enum { RANGE_PUSH_EX = 4, RANGE_POP = 5, REGISTER_STRING_A = 10, DOMAIN_CREATE_A = 12 };
enum { PAYLOAD_INT64 = 2, MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };

typedef void (*Function)(void);
typedef struct {
    size_t struct_size;
    int (*module_functions)(int module, Function ***table, unsigned int *size);
} Callbacks;
typedef const void *(*GetExportTable)(uint32_t id);

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union { int64_t integer; double real; } payload;
    int32_t message_type;
    union { const char *ascii; const void *registered; } message;
} Attributes;

static FILE *out;
static long domains;

static void *domain_create(const char *name) {
    void *handle = (void *)(uintptr_t)++domains;
    fprintf(out, "domain\t%ld\t%s\n", domains, name);
    return handle;
}

static void *register_string(void *domain, const char *text) {
    (void)domain;
    return strdup(text);
}

static const char *message(const Attributes *given) {
    if (given->message_type == MESSAGE_REGISTERED) return given->message.registered;
    return given->message_type == MESSAGE_ASCII ? given->message.ascii : "?";
}

static int range_push(void *domain, const Attributes *given) {
    char payload[32] = "-";
    if (given->payload_type == PAYLOAD_INT64) snprintf(payload, sizeof payload, "%ld", (long)given->payload.integer);
    fprintf(out, "push\t%ld\t%d\t%s\t%s\n", (long)(uintptr_t)domain, gettid(), message(given), payload);
    return 0;
}

static int range_pop(void *domain) {
    fprintf(out, "pop\t%ld\t%d\n", (long)(uintptr_t)domain, gettid());
    return 0;
}

static void put(Function **table, unsigned int size, unsigned int id, Function function) {
    if (id < size && table[id]) *table[id] = function;
}

int InitializeInjectionNvtx2(GetExportTable get) {
    const Callbacks *callbacks = get(ETID_CALLBACKS);
    Function **table;
    unsigned int size;
    char path[4096];
    if (!callbacks || !callbacks->module_functions(MODULE_CORE2, &table, &size)) return 0;
    snprintf(path, sizeof path, "%s.%d", getenv("NVTX_RECORD"), getpid());
    out = fopen(path, "w");
    if (!out) return 0;
    setvbuf(out, NULL, _IOLBF, 0);
    put(table, size, DOMAIN_CREATE_A, (Function)domain_create);
    put(table, size, REGISTER_STRING_A, (Function)register_string);
    put(table, size, RANGE_PUSH_EX, (Function)range_push);
    put(table, size, RANGE_POP, (Function)range_pop);
    return 1;
}
