#include "ui/layers.h"

#include "ui/report.h"

#include <string.h>

static double total_ms(const zn_bench_result *r)
{
    double sum = 0;
    for (int i = 0; i < r->row_count; i++)
        sum += r->rows[i].ms;
    return sum > 0 ? sum : 1;
}

static double row_gflops(const zn_profile_row *row) { return row->ms > 0 ? row->gflop / row->ms * 1e3 : 0; }

void layers_json(json *j, const zn_bench_result *r)
{
    json_open(j, "layers", '[');
    for (int i = 0; i < r->row_count; i++) {
        const zn_profile_row *row = &r->rows[i];
        json_open(j, NULL, '{');
        json_text(j, "name", row->name);
        json_text(j, "kernel", row->kernel);
        json_real(j, "ms", row->ms);
        json_real(j, "gflop", row->gflop);
        json_real(j, "gflop_done", row->gflop_done);
        json_real(j, "gslot", row->gslot);
        json_real(j, "gflops", row_gflops(row));
        json_real(j, "mbytes", row->mbytes);
        json_real(j, "share", row->ms / total_ms(r));
        json_real(j, "roofline", row->roofline);
        json_close(j, '}');
    }
    json_close(j, ']');
}

void layers_text(const zn_bench_result *r)
{
    int name = 5, kernel = 6;
    for (int i = 0; i < r->row_count; i++) {
        const int n = (int)strlen(r->rows[i].name), k = (int)strlen(r->rows[i].kernel);
        name = n > name ? n : name;
        kernel = k > kernel ? k : kernel;
    }
    say("\n%-*s  %-*s  %9s  %9s  %9s  %6s  %8s\n", name, "layer", kernel, "kernel", "ms", "GFLOP/s", "MB", "share",
        "roofline");
    for (int i = 0; i < r->row_count; i++) {
        const zn_profile_row *row = &r->rows[i];
        say("%-*s  %-*s  %9.3f  %9.1f  %9.2f  %5.1f%%  %7.1f%%\n", name, row->name, kernel, row->kernel, row->ms,
            row_gflops(row), row->mbytes, 100 * row->ms / total_ms(r), 100 * row->roofline);
    }
}
