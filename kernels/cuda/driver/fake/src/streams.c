/* Streams and events. Operations are done when the program waits for them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "state.h"

static void drain(struct object *stream, unsigned long until);

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static CUresult execute(struct operation *op) {
	void *arguments[MAX_ARGUMENTS];
	CUresult r;
	switch (op->kind) {
	case COPY: /* was checked when queued, but may have been freed since */
		if ((!inside(FAKE_MEMORY, op->to, op->n) && !inside(FAKE_HOST, op->to, op->n)) ||
			(!inside(FAKE_MEMORY, op->from, op->n) && !inside(FAKE_HOST, op->from, op->n))) return CUDA_ERROR_ILLEGAL_ADDRESS;
		memcpy(op->to, op->from, op->n);
		break;
	case LAUNCH:
		r = count_call("kernel");
		if (r == CUDA_SUCCESS) r = count_named(op->function->name);
		if ((int)r == FAKE_HANG) {
			for (unsigned long now = resets; now == resets;) pthread_cond_wait(&was_reset, &mutex);
			r = CUDA_SUCCESS;
		}
		if (r != CUDA_SUCCESS && (int)r != FAKE_SPOIL) return r;
		for (size_t i = 0, at = 0; i < (size_t)op->function->arguments; at += op->function->sizes[i++]) {
			at = place(at);
			arguments[i] = op->arguments + at;
		}
		int spoil = (int)r == FAKE_SPOIL;
		if ((r = op->function->kernel(op->grid, op->block, op->shared, arguments)) == CUDA_SUCCESS && spoil)
			((fake_spoiler *)host_function("fake_spoil"))(arguments);
		return r;
	case RECORD:
		if (live(op->other, FAKE_EVENT)) op->other->happened = now();
		break;
	case AFTER:
		if (live(op->other, FAKE_STREAM)) drain(op->other, op->place);
		break;
	}
	return CUDA_SUCCESS;
}

static void drain(struct object *stream, unsigned long until) {
	while (stream->first && stream->done < until) {
		struct operation *op = stream->first;
		stream->first = op->next;
		stream->done++;
		if (stream->context->lost == CUDA_SUCCESS) {
			CUresult r = execute(op);
			if (r != CUDA_SUCCESS) stream->context->lost = r;
		}
		free(op);
	}
}

CUresult drain_all(struct object *context) {
	for (struct object *o = objects; o; o = o->next)
		if (o->kind == FAKE_STREAM && o->context == context) drain(o, o->queued);
	return context->lost;
}

struct operation *put(CUstream s, int kind) {
	struct object *stream = (struct object *)s;
	struct operation *op = calloc(1, sizeof *op);
	op->kind = kind;
	if (stream->first) stream->last->next = op;
	else stream->first = op;
	stream->last = op;
	stream->queued++;
	return op;
}

void put_copy(CUstream s, void *to, const void *from, size_t n) {
	struct operation *op = put(s, COPY);
	op->to = to;
	op->from = from;
	op->n = n;
}

IN_CONTEXT(cuStreamCreate, (CUstream *s, unsigned flags), {
	if (flags != CU_STREAM_NON_BLOCKING) REFUSE(CUDA_ERROR_INVALID_VALUE)
	*s = (CUstream)make(FAKE_STREAM);
})

IN_CONTEXT(cuStreamDestroy_v2, (CUstream s), {
	MUST_LIVE(s, FAKE_STREAM)
	drain((struct object *)s, ((struct object *)s)->queued);
	destroy((struct object *)s);
})

IN_CONTEXT(cuStreamSynchronize, (CUstream s), {
	if (!s) break; /* operations of stream 0 are always done */
	MUST_LIVE(s, FAKE_STREAM)
	drain((struct object *)s, ((struct object *)s)->queued);
	result = current->lost;
})

/* The first query returns CUDA_ERROR_NOT_READY if there are operations. The next query performs them. */
IN_CONTEXT(cuStreamQuery, (CUstream s), {
	MUST_LIVE(s, FAKE_STREAM)
	struct object *stream = (struct object *)s;
	if (stream->first && !stream->asked) {
		stream->asked = 1;
		REFUSE(CUDA_ERROR_NOT_READY)
	}
	stream->asked = 0;
	drain(stream, stream->queued);
	result = current->lost;
})

IN_CONTEXT(cuEventCreate, (CUevent *e, unsigned flags), {
	(void)flags;
	*e = (CUevent)make(FAKE_EVENT);
})

IN_CONTEXT(cuEventDestroy_v2, (CUevent e), {
	MUST_LIVE(e, FAKE_EVENT)
	destroy((struct object *)e);
})

IN_CONTEXT(cuEventRecord, (CUevent e, CUstream s), {
	MUST_LIVE(e, FAKE_EVENT)
	MUST_LIVE(s, FAKE_STREAM)
	struct object *event = (struct object *)e;
	put(s, RECORD)->other = event;
	event->stream = (struct object *)s;
	event->place = event->stream->queued;
	event->happened = 0;
})

IN_CONTEXT(cuEventSynchronize, (CUevent e), {
	MUST_LIVE(e, FAKE_EVENT)
	struct object *event = (struct object *)e;
	if (live(event->stream, FAKE_STREAM)) drain(event->stream, event->place);
	result = current->lost;
})

IN_CONTEXT(cuEventElapsedTime, (float *ms, CUevent from, CUevent to), {
	MUST_LIVE(from, FAKE_EVENT)
	MUST_LIVE(to, FAKE_EVENT)
	double start = ((struct object *)from)->happened, end = ((struct object *)to)->happened;
	if (!start || !end) REFUSE(CUDA_ERROR_NOT_READY)
	*ms = end - start;
})

IN_CONTEXT(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned flags), {
	(void)flags;
	MUST_LIVE(s, FAKE_STREAM)
	MUST_LIVE(e, FAKE_EVENT)
	struct object *event = (struct object *)e;
	struct operation *op = put(s, AFTER);
	op->other = event->stream;
	op->place = event->place;
})
