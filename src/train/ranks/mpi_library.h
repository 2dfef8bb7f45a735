/* MPI's library, opened when this process is one of several: it brings hwloc, libevent and others with it, which a
 * program that runs alone should neither need nor wait for.
 *
 *     ZN_TRY(zn_mpi_open());
 *     zn_mpi.Comm_rank(zn_mpi.COMM_WORLD, &rank);
 *
 * Compiled with the headers of one MPI, it opens the library of that one. */
#ifndef ZN_TRAIN_MPI_LIBRARY_H
#define ZN_TRAIN_MPI_LIBRARY_H

#include <mpi.h>
#include <zenith/status.h>

/* What is called, without "MPI_". */
#define ZN_MPI_CALLS(CALL)                                                                                             \
    CALL(Allgatherv)                                                                                                   \
    CALL(Allreduce)                                                                                                    \
    CALL(Alltoallv)                                                                                                    \
    CALL(Bcast)                                                                                                        \
    CALL(Comm_dup)                                                                                                     \
    CALL(Comm_free)                                                                                                    \
    CALL(Comm_rank)                                                                                                    \
    CALL(Comm_set_errhandler)                                                                                          \
    CALL(Comm_size)                                                                                                    \
    CALL(Comm_split_type)                                                                                              \
    CALL(Error_string)                                                                                                 \
    CALL(Finalize)                                                                                                     \
    CALL(Finalized)                                                                                                    \
    CALL(Init_thread)                                                                                                  \
    CALL(Initialized)                                                                                                  \
    CALL(Recv)                                                                                                         \
    CALL(Send)

/* Constants that are used: type, name without "MPI_", and the object of Open MPI whose address it is. */
#define ZN_MPI_CONSTANTS(CONSTANT)                                                                                     \
    CONSTANT(MPI_Comm, COMM_NULL, ompi_mpi_comm_null)                                                                  \
    CONSTANT(MPI_Comm, COMM_WORLD, ompi_mpi_comm_world)                                                                \
    CONSTANT(MPI_Datatype, BYTE, ompi_mpi_byte)                                                                        \
    CONSTANT(MPI_Datatype, FLOAT, ompi_mpi_float)                                                                      \
    CONSTANT(MPI_Datatype, INT, ompi_mpi_int)                                                                          \
    CONSTANT(MPI_Errhandler, ERRORS_RETURN, ompi_mpi_errors_return)                                                    \
    CONSTANT(MPI_Info, INFO_NULL, ompi_mpi_info_null)                                                                  \
    CONSTANT(MPI_Op, MAX, ompi_mpi_op_max)                                                                             \
    CONSTANT(MPI_Op, MIN, ompi_mpi_op_min)                                                                             \
    CONSTANT(MPI_Op, SUM, ompi_mpi_op_sum)

#define ZN_MPI_CALL(name)                   __typeof__(MPI_##name) *name;
#define ZN_MPI_CONSTANT(type, name, object) type name;
typedef struct zn_mpi_library {
    ZN_MPI_CALLS(ZN_MPI_CALL)
    ZN_MPI_CONSTANTS(ZN_MPI_CONSTANT)
} zn_mpi_library;
#undef ZN_MPI_CALL
#undef ZN_MPI_CONSTANT

/* Whole after zn_mpi_open, which may be called again. */
extern zn_mpi_library zn_mpi;
ZN_MUST_USE zn_status zn_mpi_open(void);

#endif
