/* fuzz_text.c - the text readers under damage: nothing crashes, and what is read can be written and read again.

   With libFuzzer:  clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_text.c -o build/fuzz_text
   By itself:       cc -g -O1 -fsanitize=address,undefined -DFUZZ_STANDALONE -I. tests/fuzz/fuzz_text.c -o build/fuzz_text
                    build/fuzz_text [ITERATIONS [SEED [FILE...]]]
   The first byte chooses the format: 'P' a plan for the sample graph, 'C' a configuration, anything else a graph. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../data/plan_text.h"
#include <stdio.h>

#ifdef __cplusplus
extern "C"
#endif
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char sample_graph[] =
    "rockmate graph 1\n"
    "link h2d=1000000000 d2h=1000000000 latency=10 add=7\n"
    "tensor x input 64 grad\n"
    "tensor w param 32 state=64 opt=5 opt_host=50 reduce=3\n"
    "tensor first param 16 opt=5 opt_ws=8\n"
    "tensor run const 8 external\n"
    "block h\n"
    "op first in=x,w out=a:64 needs=x,w,saved saved=16 fwd=5 bwd=6 fwd_ws=16 mutates=run\n"
    "part first dx grads=x needs=w\n"
    "part first dw grads=w needs=x,saved bwd=4 bwd_ws=8\n"
    "op relu in=a out=r needs=r fwd=1 bwd=1 inplace=a inplace_bwd=a:r\n"
    "end\n"
    "op fc in=r,first out=s needs=r,first fwd=7 bwd=7 rng bits=one\n"
    "variant fc fast fwd=3 fwd_ws=128 bits= again=9 inplace=none\n"
    "op res in=s,r out=t needs=none fwd=2 bwd=2 share_bwd=s once\n"
    "op v in=t out=tv:60 needs=none view=t+4\n"
    "op loss in=tv out=l:4 needs=tv fwd=4 bwd=4\n"
    "grad s 128\n"
    "barrier clip ns=2\n"
    "anyorder\n"
    "output l\n";

static const char sample_config[] =
    "rockmate config 1\n"
    "preset=llmc-1\n"
    "name=mine\n"
    "passes=chain,search,kinds\n"
    "off=variants,inplace # why not\n"
    "segment=12\n"
    "gap_ppm=2000\n"
    "work=100000\n"
    "kinds=*gelu*,h[3]/fc,norm\n";

typedef tm_text text;

static void must(int ok)
{
    if (!ok) abort();
}

static void one_graph(const char *s, size_t n)
{
    rm_graph *g = NULL, *h = NULL;
    text one = {NULL, 0, 0}, two = {NULL, 0, 0};
    if (rm_graph_read(s, n, NULL, &g) != RM_OK) {
        must(!g || (rm_graph_error(g)[0] && !rm_graph_op_count(g) && !rm_graph_tensor_count(g)));
    } else {
        must(rm_graph_write(g, tm_sink, &one) == RM_OK && rm_graph_read(one.s, one.n, NULL, &h) == RM_OK);
        must(rm_graph_write(h, tm_sink, &two) == RM_OK && one.n == two.n && !memcmp(one.s, two.s, one.n));
    }
    rm_graph_destroy(g);
    rm_graph_destroy(h);
    free(one.s);
    free(two.s);
}

static void one_plan(rm_graph *g, const char *s, size_t n)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_program p;
    rmi_error err;
    text out = {NULL, 0, 0};
    rmi_sink sink;
    memset(&err, 0, sizeof err);
    sink.write = tm_sink;
    sink.user = &out;
    sink.failed = 0;
    if (rmi_txt_read_program(g, s, n, &mem, &p, &err) == RM_OK) {
        must(rmi_txt_write_program(g, &p, &sink) == RM_OK && rmi_txt_read_program(g, out.s, out.n, &mem, &p, &err) == RM_OK);
    } else {
        must(err.text[0] && !p.n);
    }
    free(out.s);
    rmi_arena_free(&mem);
}

static void one_config(const char *s, size_t n)
{
    rm_config a, b;
    char message[1100];
    text one = {NULL, 0, 0}, two = {NULL, 0, 0};
    memset(&a, 1, sizeof a);
    b = a;
    if (rm_config_read(s, n, &a, message, sizeof message) != RM_OK) must(message[0] && !memcmp(&a, &b, sizeof a));
    else {
        must(rm_config_write(&a, tm_sink, &one) == RM_OK && rm_config_read(one.s, one.n, &b, NULL, 0) == RM_OK);
        must(rm_config_write(&b, tm_sink, &two) == RM_OK && one.n == two.n && !memcmp(one.s, two.s, one.n));
    }
    free(one.s);
    free(two.s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rm_graph *sample;
    if (!sample) must(rm_graph_read(plan_graph, sizeof plan_graph - 1, NULL, &sample) == RM_OK);
    if (!size) return 0;
    if (data[0] == 'P') one_plan(sample, (const char *)data + 1, size - 1);
    else if (data[0] == 'C') one_config((const char *)data + 1, size - 1);
    else one_graph((const char *)data + 1, size - 1);
    return 0;
}

#ifdef FUZZ_STANDALONE
static uint64_t state;
static uint64_t draw(uint64_t below)
{
    state++;
    return rmi_mix(state) % below;
}

/* One or two changes: a byte, a byte less, a byte more, a stretch copied, moved or cut, two lines swapped. s has room for 2n + 64. */
static size_t damage(char *s, size_t n)
{
    static const char bytes[] = " \n\r\t#,:=@+0129afwx_.-nosvdg\0\xFF";
    uint64_t times = 1 + draw(3);
    while (times-- && n > 1) {
        size_t a = (size_t)draw(n), b = (size_t)draw(n), len = (size_t)draw(40);
        if (len > n - a) len = n - a;
        if (len > n - b) len = n - b;
        switch (draw(6)) {
        case 0: s[a] = bytes[draw(sizeof bytes)]; break;
        case 1: memmove(s + a, s + a + 1, --n - a); break;
        case 2:
            memmove(s + a + 1, s + a, n++ - a);
            s[a] = bytes[draw(sizeof bytes)];
            break;
        case 3: memmove(s + a, s + b, len); break;
        case 4:
            memmove(s + a, s + a + len, n - a - len);
            n -= len;
            break;
        default:
            while (a && s[a - 1] != '\n') a--;
            for (len = 0; a + len < n && s[a + len] != '\n';) len++;
            if (len > 200 || a + len >= n) break;
            len++;
            while (b && s[b - 1] != '\n') b--;
            memmove(s + b + len, s + b, n - b); /* this line once more, before another one */
            memcpy(s + b, s + (a >= b ? a + len : a), len);
            n += len;
        }
    }
    return n;
}

static char *load(const char *path, size_t *n)
{
    text t = {NULL, 0, 0};
    char part[4096];
    size_t got;
    FILE *f = fopen(path, "rb");
    while (f && (got = fread(part, 1, sizeof part, f)) > 0) tm_sink(&t, part, got);
    if (f) fclose(f);
    *n = t.n;
    return t.s;
}

int main(int argc, char **argv)
{
    unsigned long iterations = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000, i;
    state = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    state *= 1000000007u;
    for (i = 0; i < iterations; i++) {
        size_t n = 0;
        uint64_t which = draw(argc > 3 ? 4 : 3);
        char *loaded = which == 3 ? load(argv[3 + draw((uint64_t)argc - 3)], &n) : NULL;
        const char *seed = which == 0 ? sample_graph : which == 1 ? plan_single : which == 2 ? sample_config : loaded ? loaded : "";
        char *copy;
        if (which < 3) n = strlen(seed);
        copy = (char *)malloc(2 * n + 1024);
        if (!copy) return 1;
        memcpy(copy, seed, n);
        n = damage(copy, n);
        {
            char *exact = (char *)malloc(n + 1); /* exactly, so that a sanitizer sees a read past the end */
            if (!exact) return 1;
            exact[0] = which == 1 ? 'P' : which == 2 ? 'C' : 'G';
            memcpy(exact + 1, copy, n);
            LLVMFuzzerTestOneInput((const uint8_t *)exact, n + 1);
            free(exact);
        }
        free(copy);
        free(loaded);
    }
    printf("%lu texts\n", iterations);
    return 0;
}
#endif
