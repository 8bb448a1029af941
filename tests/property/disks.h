/* disks.h - puts a disk behind host memory into programs that have copies (copies.h): what lies in host memory goes there for a while,
   what is at home there or on the device is at home on disk, too, or instead. What the checker refuses is taken back.

      copies_insert(p, 42, 60, 1), disks_insert(p, 42, 60, 0);   // 60 attempts at each program; the graph gets a disk. 1: pinned memory only
*/
#ifndef RMTEST_DISKS_H
#define RMTEST_DISKS_H

#include "copies.h"

typedef struct disks {
    copies c;
    uint64_t used, bytes; /* of the disk */
    int pinned;
} disks;

static uint64_t disks_place(disks *d, uint64_t bytes)
{
    uint64_t at = d->used;
    if (copies_rnd(&d->c, 3) == 0 && d->used) return RMI_TIER(RMI_DISK) + copies_rnd(&d->c, d->used / 64) * 64; /* where something else was, or is */
    d->used += (bytes + 63) / 64 * 64;
    return RMI_TIER(RMI_DISK) + at;
}

static uint64_t disks_host(disks *d, uint64_t bytes)
{
    const uint64_t at = copies_host(&d->c, bytes);
    return d->pinned ? RMI_IN_TIER(at) : at;
}

/* Something in host memory goes to disk, and comes back there or elsewhere. */
static void disks_gap(disks *d, uint32_t i)
{
    copies *c = &d->c;
    const rmi_program *q = &c->p->prog[i];
    size_t at = copies_rnd(c, q->n ? q->n : 1), a, b, x;
    uint64_t bytes, used = d->used;
    uint32_t buf;
    copies_open(c, q);
    if (!c->n || (c->st[at].what != RMI_OFFLOAD && c->st[at].what != RMI_LOAD)) return;
    buf = c->st[at].buf;
    bytes = c->st[at].bytes ? c->st[at].bytes : rmi_low_bytes(c->p->g, buf);
    if (d->used + bytes + 64 > d->bytes || c->host_used + bytes + 256 > c->host) return;
    a = at + 1 + copies_rnd(c, c->n - at);
    b = at + 1 + copies_rnd(c, c->n - at);
    x = a < b ? a : b;
    b = a < b ? b : a;
    a = x;
    if (copies_rnd(c, 2)) copies_put(c, b, RMI_DROP_DISK, buf, 0);
    copies_put(c, b, RMI_LOAD, buf, copies_rnd(c, 2) ? disks_host(d, bytes) : c->st[at].offset);
    if (copies_rnd(c, 3)) copies_put(c, a, RMI_DROP_HOST, buf, 0);
    copies_put(c, a, RMI_STORE, buf, disks_place(d, bytes));
    if (copies_legal(c, i, 1, NULL)) c->taken++;
    else d->used = used;
}

/* A buffer's home on disk, in one program: kind 0 instead of one in host memory, 1 beside that, 2 beside one on the device. */
static int disks_home(disks *d, uint32_t buf, int kind, uint64_t host, uint64_t disk, int stores)
{
    copies *c = &d->c;
    const int writes = copies_rnd(c, 8) != 0 && stores;
    size_t k, to = copies_use(c, buf, 1);
    rmi_home *home = NULL;
    for (k = 0; k < c->n_homes; k++)
        if (c->homes[k].buf == buf && RMI_TIER_OF(c->homes[k].offset) == RMI_DISK && c->homes[k].host) return 0;
    for (k = 0; k < c->n_homes; k++)
        if (c->homes[k].buf == buf && (c->homes[k].host != 0) == (kind < 2)) home = &c->homes[k];
    if (!home) return 0;
    if (kind) {
        c->homes[c->n_homes] = *home;
        home = &c->homes[c->n_homes++];
    } else host = home->offset;
    home->host = 1;
    home->offset = disk;
    to = to == (size_t)-1 ? 0 : to;
    to += copies_rnd(c, c->n - to + 1);
    if (writes || !to) {
        if (kind == 2 || copies_rnd(c, 2)) copies_put(c, to, RMI_DROP_HOST, buf, 0);
        copies_put(c, to, RMI_STORE, buf, disk);
        if (kind == 2) copies_put(c, to, RMI_OFFLOAD, buf, host);
    }
    if (kind == 0 && to) {
        k = copies_use(c, buf, 0);
        copies_put(c, copies_rnd(c, k == (size_t)-1 ? 1 : k + 1), RMI_LOAD, buf, host);
    }
    return 1;
}

/* In all programs, or in none: what persists has the same places in all. */
static void disks_everywhere(disks *d, uint32_t buf, int kind)
{
    copies *c = &d->c;
    rmi_program found[RM_STEP_KINDS];
    uint32_t i;
    uint64_t used = d->used, host_used = c->host_used, bytes = rmi_low_bytes(c->p->g, buf), disk, host;
    const int stores = copies_rnd(c, 4) != 0;
    if (!bytes || d->used + bytes + 64 > d->bytes || c->host_used + bytes + 256 > c->host) return;
    disk = disks_place(d, bytes);
    host = kind == 2 ? disks_host(d, bytes) : 0;
    for (i = 0; i < c->p->n; i++) {
        copies_open(c, &c->p->prog[i]);
        if (!disks_home(d, buf, kind, host, disk, stores) || !copies_legal(c, i, 0, &found[i])) break;
    }
    if (i < c->p->n) {
        d->used = used;
        c->host_used = host_used;
        return;
    }
    for (i = 0; i < c->p->n; i++) c->p->prog[i] = found[i];
    c->taken++;
}

/* How many changes were made. */
RMI_UNUSED static unsigned long disks_insert(rm_plan *p, uint64_t seed, uint32_t attempts, int pinned)
{
    disks d;
    rm_graph *g = p->g;
    uint32_t i, k, turn;
    size_t most = 0, homes = 0;
    memset(&d, 0, sizeof d);
    d.c.p = p;
    d.c.rng = rmi_mix(seed + 77);
    d.pinned = pinned;
    g->disk.in = 400000000u;
    g->disk.out = 300000000u;
    g->disk.latency = 20;
    g->hashed = 0;
    for (i = 0; i < g->n_tensors; i++) d.bytes += g->tensors[i].bytes + g->tensors[i].grad_bytes + g->tensors[i].state_bytes + 64;
    d.bytes *= 4;
    for (i = 0; i < p->n; i++) {
        most = p->prog[i].n > most ? p->prog[i].n : most;
        homes = p->prog[i].n_homes > homes ? p->prog[i].n_homes : homes;
        p->prog[i].host[RMI_DISK] = d.bytes;
    }
    d.c.arena = p->prog[0].arena;
    d.c.host_used = p->prog[0].host[0];
    d.c.host = 2 * d.c.host_used;
    d.c.st = (rmi_stmt *)malloc((most + 4 * (size_t)attempts + 16 * (size_t)g->n_tensors + 8) * sizeof(rmi_stmt));
    d.c.homes = (rmi_home *)malloc((homes + 8 * (size_t)g->n_tensors + 1) * sizeof(rmi_home));
    if (!d.c.st || !d.c.homes) exit(3);
    for (i = 0; i < p->n; i++) { /* figures: the graph's costs may be others by now */
        copies_open(&d.c, &p->prog[i]);
        copies_legal(&d.c, i, 1, NULL);
    }
    for (turn = 0; turn < 3; turn++)
        for (k = 0; k < 3 * g->n_tensors; k++)
            if (copies_rnd(&d.c, 2)) disks_everywhere(&d, k, (int)copies_rnd(&d.c, 3));
    for (i = 0; i < p->n; i++)
        for (k = 0; k < attempts; k++) disks_gap(&d, i);
    for (i = 0; i < p->n; i++) {
        p->prog[i].host[0] = p->info[i].host_bytes = d.c.host;
        p->prog[i].host[1] = p->info[i].pageable_bytes = pinned ? 0 : d.c.host;
        p->info[i].disk_bytes[0] = d.bytes;
        p->info[i].disk_bytes[1] = p->prog[i].fig.copied[2];
        p->info[i].disk_bytes[2] = p->prog[i].fig.copied[3];
        p->info[i].time_ns = p->prog[i].fig.time_ns;
        p->info[i].live_bytes = p->prog[i].fig.live_bytes;
        memcpy(p->info[i].busy_ns, p->prog[i].fig.busy, sizeof p->info[i].busy_ns);
    }
    free(d.c.st);
    free(d.c.homes);
    return d.c.taken;
}

#endif
