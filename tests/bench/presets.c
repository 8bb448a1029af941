/* presets.c - what each preset makes of the graphs in a folder: time over keeping everything, and milliseconds to find it.

      cc -O2 -std=gnu99 -I. tests/bench/presets.c -o build/presets && build/presets [FOLDER [PERCENT...]]

   Without a folder: ../shared/instances/models, or nothing if that is not there. Budgets are percentages of what keeping
   everything takes (default 50 70 90). A cell: overhead in %, milliseconds of processor time; - : no plan. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include <dirent.h>
#include <stdio.h>
#include <time.h>

static char *load(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *s = NULL;
    size_t room = 0, got = 1;
    *n = 0;
    while (f && got) {
        if (room - *n < 65536) s = (char *)realloc(s, room = 2 * room + 65536);
        got = fread(s + *n, 1, room - *n, f);
        *n += got;
    }
    if (f) fclose(f);
    return s;
}

static void cell(rm_graph *g, const char *preset, uint64_t budget)
{
    rm_plan_info f = {0};
    rm_plan *p = NULL;
    rm_plan_desc d = {.device_bytes = budget, .preset = preset, .info = &f};
    clock_t start = clock();
    rm_result r = rm_plan_create(g, &d, &p);
    double ms = 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
    if (r == RM_OK) printf(" %8.2f %5.0f", 100 * ((double)f.time_ns / (double)f.keep_all_ns - 1), ms);
    else printf(" %8s %5.0f", r == RM_ERROR_INFEASIBLE ? "-" : rm_result_name(r), ms);
    rm_plan_destroy(p);
}

static void graph(const char *path, const char *name, int n, char **percent)
{
    static char usual[][4] = {"50", "70", "90"};
    size_t size, i;
    char *text = load(path, &size);
    const char *preset;
    rm_graph *g = NULL;
    rm_plan_info f = {0};
    rm_plan *p = NULL;
    int k;
    if (text && rm_graph_read(text, size, NULL, &g) == RM_OK && rm_plan_create(g, &(rm_plan_desc){.preset = "noremat", .info = &f}, &p) == RM_OK) {
        printf("\n%s: keeping everything %.3f ms, %.1f MiB\n%-12s", name, (double)f.keep_all_ns / 1e6, (double)f.keep_all_bytes / 1048576, "");
        for (k = 0; k < (n ? n : 3); k++) printf(" %13s%%", n ? percent[k] : usual[k]);
        printf("\n");
        for (i = 0; (preset = rm_preset_name(i, NULL)) != NULL; i++) {
            printf("%-12s", preset);
            for (k = 0; k < (n ? n : 3); k++) {
                cell(g, preset, f.keep_all_bytes / 100 * (uint64_t)atoi(n ? percent[k] : usual[k]));
                fflush(stdout);
            }
            printf("\n");
        }
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    free(text);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "../shared/instances/models";
    struct dirent **e;
    char path[1024];
    int n = scandir(folder, &e, NULL, alphasort), i;
    if (n < 0) printf("%s: no such folder\n", folder);
    for (i = 0; i < n; i++) {
        size_t len = strlen(e[i]->d_name);
        if (len > 4 && !strcmp(e[i]->d_name + len - 4, ".rmg") && snprintf(path, sizeof path, "%s/%s", folder, e[i]->d_name) < (int)sizeof path) graph(path, e[i]->d_name, argc > 2 ? argc - 2 : 0, argv + 2);
        free(e[i]);
    }
    if (n >= 0) free(e);
    return 0;
}
