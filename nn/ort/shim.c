//go:build cgo && linux && (amd64 || arm64)

/* ONNX Runtime's library is opened at run time. It offers a table of functions that only ever grows: a function keeps
 * its place in all later versions. So this file names the places of those that evald calls (SLOTS), and needs no header of ONNX
 * Runtime. All of its objects are void * here. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

typedef void *status; /* NULL: success */
typedef void (*log_function)(void *, int, const char *, const char *, const char *, const char *);

/* F(place, API version that it came with, result, name, parameters) */
#define SLOTS \
	F(2, 1, const char *, error_message, (const void *status)) \
	F(4, 1, status, create_env, (log_function, void *, int level, const char *id, void **env)) \
	F(6, 1, status, disable_telemetry, (const void *env)) \
	F(8, 1, status, create_session, (const void *env, const void *data, size_t, const void *options, void **session)) \
	F(9, 1, status, run, (void *session, const void *options, const char *const *, const void *const *, size_t, const char *const *, size_t, void **)) \
	F(10, 1, status, create_options, (void **options)) \
	F(23, 1, status, set_optimization, (void *options, int level)) \
	F(24, 1, status, set_threads, (void *options, int)) \
	F(30, 1, status, input_count, (const void *session, size_t *)) \
	F(31, 1, status, output_count, (const void *session, size_t *)) \
	F(33, 1, status, input_type, (const void *session, size_t, void **type)) \
	F(34, 1, status, output_type, (const void *session, size_t, void **type)) \
	F(36, 1, status, input_name, (const void *session, size_t, void *allocator, char **)) \
	F(37, 1, status, output_name, (const void *session, size_t, void *allocator, char **)) \
	F(39, 1, status, create_run_options, (void **)) \
	F(46, 1, status, set_terminate, (void *run_options)) \
	F(47, 1, status, unset_terminate, (void *run_options)) \
	F(48, 1, status, create_tensor, (void *allocator, const int64_t *shape, size_t, int type, void **value)) \
	F(51, 1, status, tensor_data, (void *value, void **data)) \
	F(55, 1, status, tensor_info, (const void *type, const void **info)) \
	F(60, 1, status, element_type, (const void *info, int *)) \
	F(61, 1, status, rank, (const void *info, size_t *)) \
	F(62, 1, status, dims, (const void *info, int64_t *, size_t)) \
	F(63, 1, status, dim_names, (const void *info, const char **, size_t)) \
	F(76, 1, status, allocator_free, (void *allocator, void *)) \
	F(78, 1, status, default_allocator, (void **)) \
	F(93, 1, void, release_status, (void *)) \
	F(95, 1, void, release_session, (void *)) \
	F(96, 1, void, release_value, (void *)) \
	F(97, 1, void, release_run_options, (void *)) \
	F(98, 1, void, release_type, (void *)) \
	F(100, 1, void, release_options, (void *)) \
	F(111, 1, status, metadata, (const void *session, void **)) \
	F(116, 1, status, metadata_value, (const void *metadata, void *allocator, const char *key, char **)) \
	F(118, 1, void, release_metadata, (void *)) \
	F(123, 3, status, metadata_keys, (const void *metadata, void *allocator, char ***, int64_t *)) \
	F(124, 3, status, set_dimension, (void *options, const char *name, int64_t)) \
	F(125, 4, status, providers, (char ***, int *)) \
	F(126, 4, status, release_providers, (char **, int)) \
	F(130, 6, status, add_config, (void *options, const char *key, const char *value)) \
	F(170, 10, status, append_tensorrt, (void *options, const void *)) \
	F(171, 10, status, create_tensorrt, (void **)) \
	F(172, 10, status, update_tensorrt, (void *, const char *const *, const char *const *, size_t)) \
	F(174, 10, void, release_tensorrt, (void *)) \
	F(204, 11, status, append_cuda, (void *options, const void *)) \
	F(205, 11, status, create_cuda, (void **)) \
	F(206, 11, status, update_cuda, (void *, const char *const *, const char *const *, size_t)) \
	F(208, 11, void, release_cuda, (void *)) \
	F(216, 12, status, append, (void *options, const char *name, const char *const *, const char *const *, size_t)) \
	F(301, 22, status, register_plugin, (void *env, const char *name, const char *path)) \
	F(303, 22, status, devices, (const void *env, const void *const **, size_t *)) \
	F(304, 22, status, append_devices, (void *options, void *env, const void *const *, size_t, const char *const *, const char *const *, size_t)) \
	F(312, 22, const char *, device_provider, (const void *device))

struct ort_library {
#define F(place, since, result, name, parameters) result (*name) parameters;
	SLOTS
#undef F
	const char *version;
	int api;
	void *env, *allocator;
	pthread_mutex_t mutex; /* for log */
	char log[1024];
};

static ort_error text(const char *t) {
	char *copy = strdup(t ? t : "no text");
	if (!copy) abort();
	return copy;
}

/* check releases a status and returns its text. */
static ort_error check(ort_library *l, status s) {
	if (!s) return NULL;
	ort_error e = text(l->error_message(s));
	l->release_status(s);
	return e;
}

#define TRY(call) do { ort_error e_ = check(l, call); if (e_) return e_; } while (0)

enum { warning = 2, error = 3 };

/* keep_log keeps the last error instead of writing it to the terminal. */
static void keep_log(void *library, int level, const char *category, const char *id, const char *place, const char *message) {
	(void)category, (void)id, (void)place;
	ort_library *l = library;
	if (level < error) return;
	pthread_mutex_lock(&l->mutex);
	snprintf(l->log, sizeof l->log, "%s", message);
	pthread_mutex_unlock(&l->mutex);
}

char *ort_log(ort_library *l) {
	pthread_mutex_lock(&l->mutex);
	char *t = *l->log ? text(l->log) : NULL;
	*l->log = 0;
	pthread_mutex_unlock(&l->mutex);
	return t;
}

/* The two entry points of the library. */
struct base {
	void *const *(*table)(uint32_t api);
	const char *(*version)(void);
};

ort_error ort_open(const char *path, int oldest, ort_library **out) {
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) return text(dlerror());
	const struct base *(*base)(void) = (const struct base *(*)(void))dlsym(handle, "OrtGetApiBase");
	if (!base) {
		dlclose(handle);
		return text("it is not ONNX Runtime: OrtGetApiBase is missing");
	}
	char message[200];
	const char *version = base()->version();
	/* Version 1.N has API N, and older ones. A request for a newer one would be answered on the terminal. */
	int api = 0;
	if (sscanf(version, "1.%d", &api) != 1 || api < oldest) {
		snprintf(message, sizeof message, "version %.40s is not supported: 1.%d or newer is", version, oldest);
		dlclose(handle);
		return text(message);
	}
	void *const *table = base()->table(api);
	if (!table) {
		snprintf(message, sizeof message, "version %.40s does not offer its API %d", version, api);
		dlclose(handle);
		return text(message);
	}
	ort_library *l = calloc(1, sizeof *l);
	if (!l) abort();
#define F(place, since, result, name, parameters) if (api >= since) l->name = (result (*) parameters)table[place];
	SLOTS
#undef F
	l->version = version;
	l->api = api;
	pthread_mutex_init(&l->mutex, NULL);
	ort_error e = check(l, l->create_env(keep_log, l, warning, "evald", &l->env)); /* from here on, the library stays open */
	if (!e) e = check(l, l->disable_telemetry(l->env));
	if (!e) e = check(l, l->default_allocator(&l->allocator));
	*out = l;
	return e;
}

const char *ort_version(const ort_library *l) { return l->version; }
int ort_api(const ort_library *l) { return l->api; }

ort_error ort_preload(const char *path) { return dlopen(path, RTLD_NOW | RTLD_GLOBAL) ? NULL : text(dlerror()); }

ort_error ort_options_new(ort_library *l, int threads, void **options) {
	TRY(l->create_options(options));
	ort_error e = check(l, l->set_threads(*options, threads));
	/* Threads may spin while a call is under way, and leave the processors to others between calls. */
	if (!e) e = check(l, l->add_config(*options, "session.force_spinning_stop", "1"));
	/* The library's own format of models would be read without the checks of ONNX. */
	if (!e) e = check(l, l->add_config(*options, "session.load_model_format", "ONNX"));
	if (e) l->release_options(*options);
	return e;
}

ort_error ort_options_basic(ort_library *l, void *options) { return check(l, l->set_optimization(options, 0)); }

ort_error ort_options_dimension(ort_library *l, void *options, const char *name, int64_t size) {
	return check(l, l->set_dimension(options, name, size));
}

ort_error ort_options_provider(ort_library *l, void *options, const char *provider, const char **keys, const char **values, size_t n) {
	if (strcmp(provider, "CUDA") == 0) {
		void *o = NULL;
		TRY(l->create_cuda(&o));
		ort_error e = check(l, l->update_cuda(o, keys, values, n));
		if (!e) e = check(l, l->append_cuda(options, o));
		l->release_cuda(o);
		return e;
	}
	if (strcmp(provider, "TensorRT") == 0) {
		void *o = NULL;
		TRY(l->create_tensorrt(&o));
		ort_error e = check(l, l->update_tensorrt(o, keys, values, n));
		if (!e) e = check(l, l->append_tensorrt(options, o));
		l->release_tensorrt(o);
		return e;
	}
	return check(l, l->append(options, provider, keys, values, n));
}

ort_error ort_options_plugin(ort_library *l, void *options, const char *provider, const char **keys, const char **values, size_t n) {
	const void *const *all = NULL;
	size_t count = 0, some = 0;
	TRY(l->devices(l->env, &all, &count));
	const void **of = calloc(count + 1, sizeof *of);
	if (!of) abort();
	for (size_t i = 0; i < count; i++)
		if (strcmp(l->device_provider(all[i]), provider) == 0) of[some++] = all[i];
	ort_error e = some ? check(l, l->append_devices(options, l->env, of, some, keys, values, n)) : text("it has no device on this machine");
	free(of);
	return e;
}

void ort_options_free(ort_library *l, void *options) { l->release_options(options); }

ort_error ort_register(ort_library *l, const char *name, const char *path) { return check(l, l->register_plugin(l->env, name, path)); }

/* add_line appends a line to a text that the caller frees. */
static void add_line(char **lines, const char *line) {
	size_t had = *lines ? strlen(*lines) : 0, n = strlen(line);
	char *more = realloc(*lines, had + n + 2);
	if (!more) abort();
	memcpy(more + had, line, n);
	memcpy(more + had + n, "\n", 2);
	*lines = more;
}

char *ort_providers(ort_library *l) {
	char *lines = NULL, **built = NULL;
	int n = 0;
	free(check(l, l->providers(&built, &n)));
	for (int i = 0; i < n; i++) add_line(&lines, built[i]);
	free(check(l, l->release_providers(built, n)));
	const void *const *devices = NULL;
	size_t count = 0;
	if (l->devices) free(check(l, l->devices(l->env, &devices, &count)));
	for (size_t i = 0; i < count; i++) add_line(&lines, l->device_provider(devices[i]));
	return lines;
}

ort_error ort_session_new(ort_library *l, const void *options, const void *model, size_t size, void **session) {
	return check(l, l->create_session(l->env, model, size, options, session));
}

void ort_session_free(ort_library *l, void *session) { l->release_session(session); }

ort_error ort_ports(ort_library *l, void *session, int output, size_t *n) {
	return check(l, output ? l->output_count(session, n) : l->input_count(session, n));
}

/* take copies a text of the library's allocator and frees it. */
static char *take(ort_library *l, char *t) {
	char *copy = text(t);
	free(check(l, l->allocator_free(l->allocator, t)));
	return copy;
}

static ort_error describe(ort_library *l, const void *type, ort_port *port) {
	const void *info = NULL;
	TRY(l->tensor_info(type, &info));
	if (!info) return NULL;
	size_t rank;
	TRY(l->element_type(info, &port->type));
	TRY(l->rank(info, &rank));
	if (rank > ort_max_rank) return NULL;
	const char *names[ort_max_rank] = {0};
	TRY(l->dims(info, port->dims, rank));
	TRY(l->dim_names(info, names, rank));
	for (size_t i = 0; i < rank; i++)
		if (names[i] && *names[i]) port->dim_names[i] = text(names[i]);
	port->rank = rank;
	return NULL;
}

ort_error ort_port_get(ort_library *l, void *session, int output, size_t index, ort_port *port) {
	char *name;
	void *type;
	*port = (ort_port){.rank = -1};
	TRY((output ? l->output_name : l->input_name)(session, index, l->allocator, &name));
	port->name = take(l, name);
	TRY((output ? l->output_type : l->input_type)(session, index, &type));
	ort_error e = describe(l, type, port);
	l->release_type(type);
	return e;
}

ort_error ort_metadata(ort_library *l, void *session, size_t *n, char ***keys, char ***values) {
	void *m;
	char **names = NULL;
	int64_t count = 0;
	TRY(l->metadata(session, &m));
	ort_error e = check(l, l->metadata_keys(m, l->allocator, &names, &count));
	*n = 0;
	*keys = calloc(count + 1, sizeof **keys);
	*values = calloc(count + 1, sizeof **values);
	if (!*keys || !*values) abort();
	for (int64_t i = 0; i < count; i++) {
		char *value = NULL;
		if (!e) e = check(l, l->metadata_value(m, l->allocator, names[i], &value));
		(*keys)[i] = take(l, names[i]);
		(*values)[i] = value ? take(l, value) : text("");
		++*n;
	}
	if (names) free(check(l, l->allocator_free(l->allocator, names)));
	l->release_metadata(m);
	return e;
}

ort_error ort_slot_new(ort_library *l, void *session, size_t inputs, size_t outputs, ort_slot **out) {
	ort_slot *s = *out = calloc(1, sizeof *s);
	if (!s) abort();
	*s = (ort_slot){.library = l, .session = session, .inputs = inputs, .outputs = outputs};
	s->names = calloc(inputs + outputs, sizeof *s->names);
	s->values = calloc(inputs + outputs, sizeof *s->values);
	s->data = calloc(inputs + outputs, sizeof *s->data);
	if (!s->names || !s->values || !s->data) abort();
	return check(l, l->create_run_options(&s->run_options));
}

ort_error ort_slot_tensor(ort_slot *s, size_t index, const char *name, int type, const int64_t *shape, size_t rank) {
	ort_library *l = s->library;
	int64_t bytes = 8; /* of an element at most */
	for (size_t i = 0; i < rank; i++)
		if (__builtin_mul_overflow(bytes, shape[i], &bytes)) return text("its shape is too large");
	s->names[index] = text(name);
	TRY(l->create_tensor(l->allocator, shape, rank, type, &s->values[index]));
	return check(l, l->tensor_data(s->values[index], &s->data[index]));
}

ort_error ort_slot_run(ort_slot *s) {
	ort_library *l = s->library;
	return check(l, l->run(s->session, s->run_options, s->names, (const void *const *)s->values, s->inputs, s->names + s->inputs, s->outputs, s->values + s->inputs));
}

void ort_slot_end(ort_slot *s) { free(check(s->library, s->library->set_terminate(s->run_options))); }
void ort_slot_resume(ort_slot *s) { free(check(s->library, s->library->unset_terminate(s->run_options))); }

void ort_slot_free(ort_slot *s) {
	ort_library *l = s->library;
	for (size_t i = 0; i < s->inputs + s->outputs; i++) {
		free((void *)s->names[i]);
		l->release_value(s->values[i]); /* NULL is allowed */
	}
	if (s->run_options) l->release_run_options(s->run_options);
	free(s->names);
	free(s->values);
	free(s->data);
	free(s);
}
