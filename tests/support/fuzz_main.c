/* fuzz_main.c - a main for the fuzz entries where libFuzzer is missing, and for running their corpora in `make test`.
 *
 * fuzz_x [FILE or FOLDER]...        every file once; prints `N passed, 0 failed`
 * fuzz_x -seconds=S [...]           then random changes of them for S seconds (much weaker than libFuzzer)
 * A finding ends the program by the entry's own abort or by a sanitizer. POSIX.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "cbt.h"
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#ifdef __cplusplus
extern "C"
#endif
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct fuzz_input {
    uint8_t *data;
    size_t size;
} fuzz_input;

static fuzz_input *inputs;
static size_t input_count;

static void fuzz_one(const uint8_t *data, size_t size)
{
    void *copy = cbt_dup(data, size); /* exact size, for AddressSanitizer */
    (void)LLVMFuzzerTestOneInput((const uint8_t *)copy, size);
    free(copy);
}

static void fuzz_keep(uint8_t *data, size_t size)
{
    fuzz_input *more = (fuzz_input *)realloc(inputs, (input_count + 1u) * sizeof *inputs);
    if (more == NULL) {
        abort();
    }
    inputs = more;
    inputs[input_count].data = data;
    inputs[input_count].size = size;
    input_count++;
}

static bool fuzz_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t size = 0, cap = 4096, got;
    uint8_t *data = (uint8_t *)malloc(cap);
    if (f == NULL || data == NULL) {
        fprintf(stderr, "FAIL cannot read %s\n", path);
        free(data);
        return false;
    }
    while ((got = fread(data + size, 1, cap - size, f)) != 0) {
        size += got;
        if (size == cap) {
            uint8_t *more = (uint8_t *)realloc(data, cap *= 2u);
            if (more == NULL) {
                abort();
            }
            data = more;
        }
    }
    fclose(f);
    fuzz_one(data, size);
    fuzz_keep(data, size);
    return true;
}

static bool fuzz_path(const char *path)
{
    struct stat st;
    struct dirent *e;
    DIR *d;
    bool ok = true;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return fuzz_file(path);
    }
    d = opendir(path);
    while (d != NULL && (e = readdir(d)) != NULL) {
        char name[1024];
        int n = snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.' && n > 0 && (size_t)n < sizeof name) {
            ok = fuzz_file(name) && ok;
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return ok;
}

/* A few changed, dropped or doubled bytes of one known input, or bytes out of nothing. */
static size_t fuzz_change(uint8_t *out, size_t cap)
{
    const fuzz_input *in = input_count != 0 ? &inputs[cbt_rand_below((uint32_t)input_count)] : NULL;
    size_t size = in != NULL ? in->size : cbt_rand_below(64);
    uint32_t changes = 1u + cbt_rand_below(4);
    size = size < cap ? size : cap;
    if (in == NULL) {
        cbt_rand_fill(out, size);
    } else if (size != 0) {
        memcpy(out, in->data, size);
    }
    while (changes-- != 0 && size != 0) {
        size_t at = cbt_rand_below((uint32_t)size);
        switch (cbt_rand_below(5)) {
        case 0: out[at] = (uint8_t)(out[at] ^ (1u << cbt_rand_below(8))); break;
        case 1: out[at] = (uint8_t)cbt_rand(); break;
        case 2: out[at] = cbt_rand_below(2) != 0 ? 0xFFu : 0u; break;
        case 3: size = at; break;
        default: memmove(out + at, out + at + 1u, size - at - 1u); size--; break;
        }
    }
    return size;
}

int main(int argc, char **argv)
{
    static uint8_t buffer[1u << 16];
    unsigned long seconds = 0;
    unsigned long long runs;
    unsigned bad = 0;
    time_t end;
    int i;
    for (i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-seconds=", 9) == 0) {
            seconds = strtoul(argv[i] + 9, NULL, 10);
        } else if (argv[i][0] != '-') {
            bad += !fuzz_path(argv[i]);
        }
    }
    if (input_count == 0) {
        fuzz_one(buffer, 0);
    }
    runs = input_count != 0 ? input_count : 1u;
    cbt_seed((uint64_t)time(NULL));
    end = time(NULL) + (time_t)seconds;
    while (seconds != 0 && time(NULL) < end) {
        for (i = 0; i < 256; i++) {
            fuzz_one(buffer, fuzz_change(buffer, sizeof buffer));
        }
        runs += 256u;
    }
    for (i = 0; i < (int)input_count; i++) {
        free(inputs[i].data);
    }
    free(inputs);
    if (seconds != 0) {
        printf("%llu executions\n", runs);
    }
    printf("%llu passed, %u failed\n", seconds != 0 ? 1u : runs, bad);
    return bad != 0;
}
