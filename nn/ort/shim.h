/* The functions of ONNX Runtime for Go. See shim.c. */
#ifndef EVALD_ORT_SHIM_H
#define EVALD_ORT_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* An open library with its environment. It stays open until the program ends. */
typedef struct ort_library ort_library;

/* A function that can fail returns its error as text that the caller frees, or NULL. */
typedef char *ort_error;

ort_error ort_open(const char *path, int oldest, ort_library **out);
const char *ort_version(const ort_library *l);
int ort_api(const ort_library *l);
ort_error ort_preload(const char *path); /* opens a library for all others of the process */
char *ort_log(ort_library *l);           /* the last error that the library has logged since the last call, or NULL; to be freed */

/* Options of a session, to be released. provider is CUDA, TensorRT or a name that the library knows; plugin one of a registered library. */
ort_error ort_options_new(ort_library *l, int threads, void **options);
ort_error ort_options_basic(ort_library *l, void *options); /* no optimisation: for a look at a model */
ort_error ort_options_dimension(ort_library *l, void *options, const char *name, int64_t size);
ort_error ort_options_provider(ort_library *l, void *options, const char *provider, const char **keys, const char **values, size_t n);
ort_error ort_options_plugin(ort_library *l, void *options, const char *provider, const char **keys, const char **values, size_t n);
void ort_options_free(ort_library *l, void *options);
ort_error ort_register(ort_library *l, const char *name, const char *path);
char *ort_providers(ort_library *l); /* the names of all, each on a line; to be freed */

ort_error ort_session_new(ort_library *l, const void *options, const void *model, size_t size, void **session);
void ort_session_free(ort_library *l, void *session);

/* An input or output of a session. rank is -1 if it is no tensor. */
enum { ort_max_rank = 8 };
typedef struct {
	char *name; /* to be freed, as are dim_names, where NULL means no name */
	int type, rank;
	int64_t dims[ort_max_rank];
	char *dim_names[ort_max_rank];
} ort_port;

ort_error ort_ports(ort_library *l, void *session, int output, size_t *n);
ort_error ort_port_get(ort_library *l, void *session, int output, size_t index, ort_port *port);
ort_error ort_metadata(ort_library *l, void *session, size_t *n, char ***keys, char ***values); /* all to be freed */

/* Memory for one call at a time of a session: its inputs, then its outputs. */
typedef struct {
	ort_library *library;
	void *session, *run_options;
	size_t inputs, outputs;
	const char **names; /* [inputs+outputs], and so are values and data */
	void **values, **data;
} ort_slot;

ort_error ort_slot_new(ort_library *l, void *session, size_t inputs, size_t outputs, ort_slot **out);
ort_error ort_slot_tensor(ort_slot *s, size_t index, const char *name, int type, const int64_t *shape, size_t rank);
ort_error ort_slot_run(ort_slot *s);
void ort_slot_end(ort_slot *s);    /* ends a run that another thread is in */
void ort_slot_resume(ort_slot *s); /* after ort_slot_end */
void ort_slot_free(ort_slot *s);

#endif
