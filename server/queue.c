/* A queue with fair turns between clients. */
#include "server/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 256 };

int sv_queue_init(sv_queue *q, int most, int per_client)
{
    *q = (sv_queue){ .most = most, .per_client = per_client };
    q->items = calloc((size_t)most, sizeof *q->items);
    q->turns = calloc(TURNS, sizeof *q->turns);
    return q->items && q->turns;
}

void sv_queue_free(sv_queue *q)
{
    free(q->items);
    free(q->turns);
    *q = (sv_queue){ 0 };
}

/* The last turn of a client; NULL: it had none lately. */
static struct sv_turn *turn_of(const sv_queue *q, const char *client)
{
    for (int i = 0; i < TURNS; i++)
        if (q->turns[i].turn && !strcmp(q->turns[i].client, client))
            return &q->turns[i];
    return NULL;
}

static void take_turn(sv_queue *q, const char *client)
{
    struct sv_turn *t = turn_of(q, client);
    for (int i = 0; !t && i < TURNS; i++)
        t = q->turns[i].turn ? NULL : &q->turns[i];
    for (int i = 0; i < TURNS; i++)
        if (!t || (t->turn && strcmp(t->client, client) && q->turns[i].turn < t->turn))
            t = &q->turns[i];
    snprintf(t->client, sizeof t->client, "%s", client);
    t->turn = ++q->turn;
}

sv_queued sv_queue_push(sv_queue *q, void *value, const char *client)
{
    int own = 0;
    for (int i = 0; i < q->count; i++)
        own += !strcmp(q->items[i].client, client);
    if (q->count == q->most)
        return SV_QUEUE_FULL;
    if (own >= q->per_client)
        return SV_CLIENT_FULL;
    sv_queue_item *item = &q->items[q->count++];
    item->value = value;
    snprintf(item->client, sizeof item->client, "%s", client);
    return SV_QUEUED;
}

static void remove_at(sv_queue *q, int index)
{
    q->count--;
    memmove(q->items + index, q->items + index + 1, (size_t)(q->count - index) * sizeof *q->items);
}

/* The first item of the client whose turn is longest ago. */
static int next_index(const sv_queue *q)
{
    int best = 0;
    uint64_t oldest = UINT64_MAX;
    for (int i = 0; i < q->count; i++) {
        const struct sv_turn *t = turn_of(q, q->items[i].client);
        const uint64_t turn = t ? t->turn : 0;
        if (turn < oldest) {
            oldest = turn;
            best = i;
        }
    }
    return best;
}

void *sv_queue_next(sv_queue *q)
{
    if (!q->count)
        return NULL;
    const int index = next_index(q);
    void *value = q->items[index].value;
    take_turn(q, q->items[index].client);
    remove_at(q, index);
    return value;
}

int sv_queue_remove(sv_queue *q, const void *value)
{
    for (int i = 0; i < q->count; i++)
        if (q->items[i].value == value) {
            remove_at(q, i);
            return 1;
        }
    return 0;
}

/* Item k of a client leaves before item n of another if k < n, or k == n and that client is served first. */
int sv_queue_position(const sv_queue *q, const void *value)
{
    int at = -1, round = 0, before = 0;
    for (int i = 0; i < q->count; i++)
        if (q->items[i].value == value)
            at = i;
    if (at < 0)
        return -1;
    const char *client = q->items[at].client;
    const struct sv_turn *mine = turn_of(q, client);
    for (int i = 0; i < at; i++)
        round += !strcmp(q->items[i].client, client);
    for (int i = 0; i < q->count; i++) {
        int earlier = 0;
        for (int k = 0; k < i; k++)
            earlier += !strcmp(q->items[k].client, q->items[i].client);
        const struct sv_turn *other = turn_of(q, q->items[i].client);
        const uint64_t a = other ? other->turn : 0, b = mine ? mine->turn : 0;
        const int ahead = a != b ? a < b : i < at;
        before += i != at && (earlier < round || (earlier == round && ahead));
    }
    return before;
}
