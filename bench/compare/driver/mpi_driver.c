/* MPI's collectives behind the driver's table; compiled once per MPI that is compared. */
#include <mpi.h>
#include <string.h>

#include "bench/compare/driver/backend.h"

/* MPI 4.1 has no bfloat16; MPICH and Intel MPI add one. */
#ifdef MPIX_BFLOAT16
#define BFLOAT16_TYPE MPIX_BFLOAT16
#else
#define BFLOAT16_TYPE MPI_DATATYPE_NULL
#endif

static int other; /* of two ranks */

static int Reduces(const struct command* command) {
  return command->op == OP_ALL_REDUCE || command->op == OP_REDUCE_SCATTER;
}

/* What only moves goes as 2-byte integers where there is no bfloat16. */
static MPI_Datatype TypeOf(const struct command* command) {
  if (command->dtype == ELEMENT_FLOAT32) return MPI_FLOAT;
  return Reduces(command) ? BFLOAT16_TYPE : MPI_UINT16_T;
}

static const char* Refuse(const struct command* command) {
  if (TypeOf(command) == MPI_DATATYPE_NULL) return "this MPI has no bfloat16 to reduce";
  return NULL;
}

static const char* Sentence(int code) {
  static char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (code == MPI_SUCCESS) return NULL;
  MPI_Error_string(code, text, &length);
  return text;
}

static const char* Run(const struct command* command, const void* in, void* out, size_t count) {
  const MPI_Datatype type = TypeOf(command);
  const int n = (int)count;
  const void* from = command->in_place ? MPI_IN_PLACE : in;
  switch (command->op) {
    case OP_ALL_REDUCE:
      return Sentence(MPI_Allreduce(from, out, n, type, MPI_SUM, MPI_COMM_WORLD));
    case OP_ALL_GATHER:
      return Sentence(MPI_Allgather(from, n, type, out, n, type, MPI_COMM_WORLD));
    case OP_REDUCE_SCATTER:
      return Sentence(MPI_Reduce_scatter_block(in, out, n, type, MPI_SUM, MPI_COMM_WORLD));
    case OP_BROADCAST:
      return Sentence(MPI_Bcast(out, n, type, 0, MPI_COMM_WORLD));
    case OP_ALL_TO_ALL:
      return Sentence(MPI_Alltoall(in, n, type, out, n, type, MPI_COMM_WORLD));
    case OP_BARRIER:
      return Sentence(MPI_Barrier(MPI_COMM_WORLD));
    case OP_EXCHANGE:
      return Sentence(MPI_Sendrecv(in, n, type, other, 0, out, n, type, other, 0, MPI_COMM_WORLD,
                                   MPI_STATUS_IGNORE));
    case OP_COPY:
    case OP_IDLE:
    case OP_ROUND_TRIP:
      break;
  }
  return "MPI has no such operation";
}

static const char* Barrier(void) {
  return Sentence(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, "\n")] = '\0';
  struct backend backend = {version, 0, 1, Refuse, Run, Barrier, NULL, NULL, NULL, NULL};
  MPI_Comm_rank(MPI_COMM_WORLD, &backend.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &backend.size);
  other = 1 - backend.rank;
  const int code = Drive(&backend);
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return 0;
}
