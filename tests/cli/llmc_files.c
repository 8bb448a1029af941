/* Files that docs/from-llm.c.md trains on where llm.c's own are not at hand: llmc_files CHECKPOINT TOKENS (random ones). */
#include <stdint.h>
#include <stdio.h>
static uint64_t s = 1;
static float uniform(void) { s ^= s >> 12; s ^= s << 25; s ^= s >> 27; return (float)(s * 0x2545F4914F6CDD1Dull >> 40) / (1 << 23) - 1; }
int main(int argc, char **argv)
{
    enum { MAXT = 256, V = 1024, L = 6, NH = 4, C = 128 };
    const long n[16] = {V * C, MAXT * C, L * C, L * C, L * 3 * C * C, L * 3 * C, L * C * C, L * C, L * C, L * C, L * 4 * C * C, L * 4 * C, L * 4 * C * C, L * C, C, C};
    const char kind[] = "rr10r0r010r0r010";
    int32_t h[256] = {20240326, 3, MAXT, V, L, NH, C, V};
    FILE *f = fopen(argv[1], "wb");
    fwrite(h, 4, 256, f);
    for (int i = 0; i < 16; i++)
        for (long k = 0; k < n[i]; k++) { float x = kind[i] == 'r' ? 0.03f * uniform() : kind[i] == '1'; fwrite(&x, 4, 1, f); }
    fclose(f);
    f = fopen(argv[2], "wb");
    int32_t t[256] = {20240520, 1, 8 * 256 * 12 + 1};
    fwrite(t, 4, 256, f);
    for (int k = 0; k < t[2]; k++) { float u = uniform(); uint16_t x = (uint16_t)(u * u * u * u * (V - 1)); fwrite(&x, 2, 1, f); }
    return fclose(f);
}
