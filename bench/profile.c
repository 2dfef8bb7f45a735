/* The profile of a run, as a table. */
#include "profile.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_ROWS = 512 };

typedef struct line {
    const char *op, *kernel;
    zn_shape shape;
    zn_type type;
    double ms, flops, bytes;
    int count;
} line;

static const char *const type_names[] = { "f32", "bf16", "f16", "fp8" }; /* by zn_type */

static int by_time(const void *a, const void *b)
{
    const double x = ((const line *)a)->ms, y = ((const line *)b)->ms;
    return (x < y) - (x > y);
}

void print_profile(const zn_exec *e)
{
    static line lines[MAX_ROWS];
    int count = 0;
    double total = 0, bytes = 0;
    for (int i = 0; i < zn_exec_rows(e); i++) {
        const zn_exec_row row = zn_exec_row_at(e, i);
        int k = 0;
        while (k < count && (lines[k].op != row.node->op->name || lines[k].kernel != row.kernel ||
                             lines[k].type != row.node->type || !zn_shape_equal(lines[k].shape, row.node->shape)))
            k++;
        if (k == MAX_ROWS)
            continue;
        if (k == count)
            lines[count++] = (line){
                .op = row.node->op->name, .kernel = row.kernel, .shape = row.node->shape, .type = row.node->type
            };
        lines[k].ms += row.ms;
        lines[k].flops += row.flops;
        lines[k].bytes += row.bytes;
        lines[k].count++;
        total += row.ms;
        bytes += row.bytes;
    }
    qsort(lines, (size_t)count, sizeof *lines, by_time);
    printf("%-18s %-22s %-23s %5s %9s %6s %9s %9s %7s\n", "op", "kernel", "result", "count", "ms", "share", "GFLOP/s",
           "MB", "GB/s");
    for (int k = 0; k < count; k++) {
        char text[96];
        printf("%-18s %-22s %-18s %-4s %5d %9.3f %5.1f%% %9.1f %9.2f %7.0f\n", lines[k].op, lines[k].kernel,
               zn_shape_text(lines[k].shape, text, sizeof text), type_names[lines[k].type], lines[k].count, lines[k].ms,
               100 * lines[k].ms / total, lines[k].flops / lines[k].ms * 1e-6, lines[k].bytes * 1e-6,
               lines[k].bytes / lines[k].ms * 1e-6);
    }
    printf("%-18s %-22s %-23s %5d %9.3f ms; %.2f MB go into and out of the nodes\n", "all", "", "", zn_exec_rows(e),
           total, bytes * 1e-6);
}
