/* A queue with fair turns: of the clients that wait, the one whose last turn is longest ago is next; a client's own
 * items keep their order. Not locked. */
#ifndef ZN_SERVER_QUEUE_H
#define ZN_SERVER_QUEUE_H

#include <stdint.h>

typedef struct sv_queue_item {
    void *value;
    char client[128];
} sv_queue_item;

typedef struct sv_queue {
    sv_queue_item *items; /* in the order of arrival */
    int count, most, per_client;
    struct sv_turn {
        char client[128];
        uint64_t turn;
    } * turns; /* the last turn of clients; the oldest is forgotten when it is full */
    uint64_t turn;
} sv_queue;

/* 0: out of memory. */
int sv_queue_init(sv_queue *q, int most, int per_client);
void sv_queue_free(sv_queue *q);
typedef enum sv_queued { SV_QUEUED, SV_QUEUE_FULL, SV_CLIENT_FULL } sv_queued;
sv_queued sv_queue_push(sv_queue *q, void *value, const char *client);
/* Removes and returns the next value; NULL: empty. */
void *sv_queue_next(sv_queue *q);
/* Removes a value; 0: it is not there. */
int sv_queue_remove(sv_queue *q, const void *value);
/* How many values will leave before this one if nobody else comes; -1: it is not there. */
int sv_queue_position(const sv_queue *q, const void *value);

#endif
