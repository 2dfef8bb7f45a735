/* What mpirun and its like tell the processes they start, by environment. MPI is not touched unless there are several:
 * a program of one has no use for it, and joining takes a tenth of a second. */
#include "train/ranks/ranks.h"

#include <stdlib.h>

static int number(const char *variable)
{
    const char *text = getenv(variable);
    const long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < 1 << 20 ? (int)n : 0;
}

int zn_ranks_started(void)
{
    int n = number("OMPI_COMM_WORLD_SIZE"); /* Open MPI */
    if (!n)
        n = number("PMI_SIZE"); /* MPICH and its descendants */
    if (!n && getenv("PMIX_RANK"))
        n = number("SLURM_NTASKS"); /* srun */
    return n ? n : 1;
}
