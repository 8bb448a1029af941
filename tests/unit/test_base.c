/* test_base.c - what every room stands on, said in the comments of >>base: sums that saturate, quotients of long products, sorting,
   searching, arenas whose tables are zero, lists, numbers as text, lines that are cut, sinks that fail, messages.

      sh tests/run.sh test_base */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"

/* --- numbers */
static void saturates(void)
{
    EXPECT(rmi_add(RMI_INF, 1) == RMI_INF && rmi_add(RMI_INF - 1, 1) == RMI_INF && rmi_add(2, 3) == 5, "add");
    EXPECT(rmi_sub(RMI_INF, 5) == RMI_INF && rmi_sub(3, 5) == 0 && rmi_sub(5, 3) == 2, "sub");
    EXPECT(rmi_mul(RMI_INF, 2) == RMI_INF && rmi_mul((uint64_t)1 << 32, (uint64_t)1 << 32) == RMI_INF && rmi_mul(0, RMI_INF) == 0 && rmi_mul(7, 6) == 42, "mul");
    EXPECT(rmi_round_up(0, 8) == 0 && rmi_round_up(8, 8) == 8 && rmi_round_up(9, 8) == 16 && rmi_round_up(RMI_INF - 3, 8) == RMI_INF, "round up");
    EXPECT(rmi_ceil_div(0, 3) == 0 && rmi_ceil_div(6, 3) == 2 && rmi_ceil_div(7, 3) == 3, "ceil div");
}

#if defined(__SIZEOF_INT128__)
static uint64_t quotient(uint64_t a, uint64_t b, uint64_t divisor)
{
    unsigned __int128 product = (unsigned __int128)a * b, up = product / divisor + (product % divisor != 0);
    return up > RMI_INF ? RMI_INF : (uint64_t)up;
}
#endif

static void long_products(void)
{
    uint64_t i, top = (uint64_t)1 << 63;
    EXPECT(rmi_mul_div_up(6, 7, 5) == 9 && rmi_mul_div_up(6, 5, 5) == 6 && rmi_mul_div_up(0, 5, 5) == 0, "short ones");
    EXPECT(rmi_mul_div_up(RMI_INF, RMI_INF, 1) == RMI_INF && rmi_mul_div_up(top, 2, 1) == RMI_INF, "a quotient that does not fit");
    EXPECT(rmi_mul_div_up(RMI_INF, RMI_INF, RMI_INF) == RMI_INF && rmi_mul_div_up(RMI_INF - 1, RMI_INF - 2, RMI_INF) == RMI_INF - 2, "rests of 64 bits");
#if defined(__SIZEOF_INT128__)
    for (i = 0; i < 3000; i++) {
        uint64_t a = rmi_mix(3 * i) >> i % 40, b = rmi_mix(3 * i + 1) >> i % 37, divisor = (rmi_mix(3 * i + 2) >> i % 31) | (i % 3 ? 1 : top);
        tm_case = (unsigned long)i;
        EXPECT(rmi_mul_div_up(a, b, divisor) == quotient(a, b, divisor), "against 128 bits");
    }
    tm_case = 0;
#else
    (void)i;
#endif
}

static int by_tens(const void *a, const void *b, void *user)
{
    uint64_t x = *(const uint64_t *)a / 10, y = *(const uint64_t *)b / 10;
    ++*(unsigned *)user;
    return x < y ? -1 : x > y;
}

static void sorts(void)
{
    uint64_t at[200], copy[200], room[200], sum;
    unsigned n, i, asked = 0;
    for (n = 0; n <= 200; n += n < 20 ? 1 : 45) {
        tm_case = n;
        for (i = 0, sum = 0; i < n; i++) copy[i] = at[i] = rmi_mix(i + n) % (n + 3) * 7, sum += at[i];
        rmi_sort(at, n, sizeof *at, by_tens, &asked);
        for (i = 0; i < n; i++) sum -= at[i];
        for (i = 1; i < n; i++) EXPECT(at[i - 1] / 10 <= at[i] / 10, "shell sort");
        EXPECT(!sum, "the same elements");
        for (i = 0; i < n; i++) copy[i] = (copy[i] << 32) + copy[i] * 1001;
        rmi_sort_u64(copy, room, n);
        for (i = 1; i < n; i++) EXPECT(copy[i - 1] <= copy[i], "radix sort");
        for (i = 0; i < n; i++) EXPECT(rmi_lower_bound(copy, n, copy[i]) <= i && (!i || copy[i - 1] == copy[i] || rmi_lower_bound(copy, n, copy[i]) == i), "where a number stands");
        EXPECT(rmi_lower_bound(copy, n, RMI_INF) == n && rmi_lower_bound(copy, n, 0) == 0, "or would");
    }
    tm_case = 0;
    EXPECT(asked > 1000, "compared");
}

static void hashes(void)
{
    EXPECT(rmi_fnv(RMI_FNV_START, "", 0) == 0xCBF29CE484222325u && rmi_fnv(RMI_FNV_START, "foobar", 6) == 0x85944171F73967E8u, "FNV-1a as published");
    EXPECT(rmi_fnv(rmi_fnv(RMI_FNV_START, "foo", 3), "bar", 3) == rmi_fnv(RMI_FNV_START, "foobar", 6), "in pieces");
    EXPECT(rmi_mix(0) == 0xE220A8397B1DCDAFu, "splitmix64 as published");
}

/* --- memory */
static unsigned long held;
static void *take(size_t n, void *user)
{
    void *memory = malloc(n);
    (void)user;
    if (memory) memset(memory, 0xA5, n), held++;
    return memory;
}
static void give(void *memory, void *user)
{
    (void)user;
    held -= memory != NULL;
    free(memory);
}

static int all_zero(const void *memory, size_t n)
{
    const unsigned char *byte = (const unsigned char *)memory;
    while (n--)
        if (*byte++) return 0;
    return 1;
}

/* Tables are zero whatever the allocator gives, also in memory that is used again; growing keeps what was there; all goes back. */
static void arenas(void)
{
    rm_allocator hooks;
    rmi_arena a;
    uint32_t *table = NULL, *other = NULL, i, round;
    size_t cap = 0;
    unsigned long before;
    memset(&hooks, 0, sizeof hooks);
    hooks.alloc = take;
    hooks.free = give;
    a = rmi_arena_make(&hooks);
    for (round = 0; round < 3; round++) {
        for (i = 1; i < 3000; i += i / 2 + 1) {
            other = RMI_NEW(&a, uint32_t, i);
            EXPECT(other && all_zero(other, i * sizeof *other) && !((uintptr_t)other & 15), "a table");
            memset(other, 0xFF, i * sizeof *other);
        }
        for (i = 1, table = NULL, cap = 0; i < 5000; i++) {
            size_t had = cap;
            EXPECT(RMI_GROW(&a, table, cap, i) && cap >= i, "grows");
            EXPECT(all_zero(table + had, (cap - had) * sizeof *table), "what is new is zero");
            table[i - 1] = i;
        }
        for (i = 1; i < 5000; i++) EXPECT(table[i - 1] == i, "what was there is kept");
        EXPECT(RMI_TABLES(&a, RMI_T(table, 10), RMI_T(other, 700)) == RM_OK && all_zero(table, 40) && all_zero(other, 2800), "tables");
        rmi_arena_clear(&a);
    }
    before = held;
    table = RMI_NEW(&a, uint32_t, 1 << 20);
    EXPECT(held == before + 1, "what is large comes alone");
    rmi_arena_drop(&a, table, (size_t)4 << 20);
    EXPECT(held == before, "and goes alone");
    EXPECT(!rmi_arena_get(&a, SIZE_MAX / 2, 4) && !rmi_arena_get(&a, SIZE_MAX / 4, 5), "a product that overflows");
    rmi_arena_free(&a);
    table = RMI_RAW(&a, uint32_t, 5); /* 20 bytes, and a byte in what is left of 32 */
    before = held;
    EXPECT(rmi_arena_take(&a, 1, 1) == table + 5, "what is small lies close");
    rmi_arena_drop(&a, table, 5 * sizeof *table);
    EXPECT(held == before, "and does not go with its neighbour");
    rmi_arena_free(&a);
    EXPECT(!held, "all goes back");
}

static void lists(void)
{
    uint32_t room[4];
    rmi_list list;
    list.at = room;
    list.n = 0;
    EXPECT(!rmi_list_has(&list, 0), "empty");
    rmi_list_put_once(&list, 7), rmi_list_put_once(&list, 3), rmi_list_put_once(&list, 7);
    EXPECT(list.n == 2 && room[0] == 7 && room[1] == 3 && rmi_list_has(&list, 3) && !rmi_list_has(&list, 4), "once");
}

/* --- text */
static void reads(const char *wanted, const char *format, uint64_t a, uint64_t b)
{
    char text[100];
    rmi_format(text, sizeof text, format, a, b);
    if (strcmp(text, wanted)) printf("%s of %llu, %llu\n", format, (unsigned long long)a, (unsigned long long)b);
    EXPECT(!strcmp(text, wanted), text);
}

static void numbers(void)
{
    char text[100];
    reads("0", "%u", 0, 0);
    reads("18446744073709551615", "%u", UINT64_MAX, 0);
    reads("0 bytes", "%b", 0, 0);
    reads("1023 bytes", "%b", 1023, 0);
    reads("1.0 KiB", "%b", 1024, 0);
    reads("1.5 KiB", "%b", 1536, 0);
    reads("2.0 KiB", "%b", 2047, 0);
    reads("1.0 MiB", "%b", 1048576, 0);
    reads("3.3 GiB", "%b", 3543348020u, 0);
    reads("16.0 EiB", "%b", UINT64_MAX, 0);
    reads("0.00 us", "%t", 0, 0);
    reads("9.99 us", "%t", 9994, 0);
    reads("0.01 ms", "%t", 10000, 0);
    reads("12.35 ms", "%t", 12345678, 0);
    reads("10.00 s", "%t", 10000000000u, 0);
    reads("+25.00 %", "%o", 5, 4);
    reads("-20.00 %", "%o", 4, 5);
    reads("+0.00 %", "%o", 4, 4);
    reads("0.3333", "%4r", 1, 3);
    reads("1.00", "%2r", 999, 1000);
    reads("2", "%0r", 3, 2);
    reads("5.0", "%1r", 5, 0);
    reads("7% of 3 %", "%u% of %u %", 7, 3);
    rmi_format(text, sizeof text, "<%s> and <%s>", "one", "");
    EXPECT(!strcmp(text, "<one> and <>"), text);
}

/* A line that is full is cut and ends with its zero. */
static void lines(void)
{
    char text[8];
    size_t room;
    for (room = 1; room <= sizeof text; room++) {
        memset(text, '#', sizeof text);
        rmi_format(text, room, "%s%u%s", "ab", (uint64_t)34, "xyz");
        tm_case = (unsigned long)room;
        EXPECT(strlen(text) == rmi_min(room - 1, 7) && !memcmp(text, "ab34xyz", rmi_min(room - 1, 7)), text);
        EXPECT(room == sizeof text || text[room] == '#', "nothing behind");
    }
    tm_case = 0;
}

static unsigned written;
static int refuses(void *user, const char *text, size_t n)
{
    (void)text;
    written += n > 0;
    return written > *(unsigned *)user;
}

static void sinks(void)
{
    unsigned most = 2;
    rmi_sink sink = {refuses, &most, 0, NULL, 0, 0};
    rmi_put(&sink, "");
    EXPECT(!written && !sink.failed, "nothing is no piece of text");
    rmi_put(&sink, "a"), rmi_put_u64(&sink, 12);
    EXPECT(written == 2 && !sink.failed, "two pieces");
    rmi_put(&sink, "c"), rmi_put(&sink, "d"), rmi_put_format(&sink, "%u", (uint64_t)1);
    EXPECT(written == 3 && sink.failed, "the first failure sticks");
}

static char heard[64];
static rm_result heard_of;
static void hear(void *user, rm_result result, const char *message)
{
    (void)user;
    heard_of = result;
    snprintf(heard, sizeof heard, "%s", message);
}

static void messages(void)
{
    rmi_error error;
    char longer[2 * RMI_ERR_TEXT];
    memset(&error, 0, sizeof error);
    error.log = hear;
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    EXPECT(rmi_err_set(&error, RM_ERROR_GRAPH, "op %s reads %u", "relu", (uint64_t)3) == RM_ERROR_GRAPH, "the result is returned");
    EXPECT(error.result == RM_ERROR_GRAPH && !strcmp(error.text, "op relu reads 3"), error.text);
    EXPECT(heard_of == RM_ERROR_GRAPH && !strcmp(heard, error.text), "and logged");
    rmi_err_set(&error, RM_ERROR_TEXT, "%s", longer);
    EXPECT(strlen(error.text) == RMI_ERR_TEXT - 1, "cut");
    rmi_err_clear(&error);
    EXPECT(error.result == RM_OK && !error.text[0], "cleared");
    EXPECT(rmi_err_memory(&error) == RM_ERROR_MEMORY && strstr(error.text, "memory"), error.text);
}

/* The question is put when enough has been done, and a yes stands. */
static unsigned questions;
static int ask(void *user) { return ++questions == *(unsigned *)user; }

static void stops(void)
{
    unsigned yes = 2;
    rmi_stop stop;
    memset(&stop, 0, sizeof stop);
    stop.ask = ask;
    stop.user = &yes;
    EXPECT(!rmi_stopped(NULL, RMI_STOP_EVERY), "who never stops anything");
    EXPECT(!rmi_stopped(&stop, RMI_STOP_EVERY - 1) && !questions, "little work, no question");
    EXPECT(!rmi_stopped(&stop, 1) && questions == 1, "the first question");
    EXPECT(!rmi_stopped(&stop, 1) && rmi_stopped(&stop, RMI_STOP_EVERY) && questions == 2, "the second");
    EXPECT(rmi_stopped(&stop, RMI_STOP_EVERY) && questions == 2, "a yes stands");
}

int main(void)
{
    saturates();
    long_products();
    sorts();
    hashes();
    arenas();
    lists();
    numbers();
    lines();
    sinks();
    messages();
    stops();
    return tm_end();
}
