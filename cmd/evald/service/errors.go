package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/queue"
	"github.com/evald/evald/engine/short"
)

// Errors are gRPC statuses in both transports; REST converts their codes to HTTP's.

// mostSaid is the maximum length of an error's text in bytes. gRPC sends the text in a trailer, whose length clients limit.
const mostSaid = 1 << 10

// invalid returns the status of a client's mistake. It clips texts among the arguments.
func invalid(format string, args ...any) error { return refuse(codes.InvalidArgument, format, args...) }

// refuse returns a status. It clips texts among the arguments, which may come from a client.
func refuse(code codes.Code, format string, args ...any) error {
	return status.Error(code, short.To(clipped(format, args), mostSaid))
}

// clipped formats a text, and clips texts among the arguments.
func clipped(format string, args []any) string {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = short.Text(a)
		case error:
			args[i] = short.Text(a.Error())
		case []int64: // a shape may have any number of dimensions
			args[i] = short.Text(fmt.Sprint(a))
		}
	}
	return fmt.Sprintf(format, args...)
}

// rowError is a client's mistake in a row of an input.
type rowError struct {
	input string
	eval.RowError
}

func (e *rowError) Error() string { return fmt.Sprintf("input %q: %v", e.input, &e.RowError) }

func (e *rowError) Unwrap() error { return &e.RowError }

// GRPCStatus is the status of e, as package status asks for it.
func (e *rowError) GRPCStatus() *status.Status {
	return status.New(codes.InvalidArgument, short.To(e.Error(), mostSaid))
}

// toStatus converts an evaluator's error to a status; nil stays nil.
func toStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Internal
	missing := (*eval.UnsupportedError)(nil)
	switch {
	case errors.As(err, &missing):
		code = codes.InvalidArgument
	case errors.Is(err, queue.ErrFull), errors.Is(err, queue.ErrLate):
		code = codes.ResourceExhausted
	case errors.Is(err, queue.ErrClosed), errors.Is(err, eval.ErrUnavailable):
		code = codes.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	return status.Error(code, short.To(err.Error(), mostSaid))
}

func httpStatus(c codes.Code) int { return cmp.Or(httpStatuses[c], http.StatusBadRequest) }

var httpStatuses = map[codes.Code]int{
	codes.NotFound: http.StatusNotFound, codes.Unauthenticated: http.StatusUnauthorized, codes.PermissionDenied: http.StatusForbidden,
	codes.ResourceExhausted: http.StatusTooManyRequests, codes.Unavailable: http.StatusServiceUnavailable,
	codes.Canceled: http.StatusServiceUnavailable, codes.Unimplemented: http.StatusNotImplemented,
	codes.DeadlineExceeded: http.StatusGatewayTimeout, codes.Internal: http.StatusInternalServerError,
	codes.Unknown: http.StatusInternalServerError,
}

// reasons are the values of the label "reason" of nv_inference_request_failure.
var reasons = [...]string{"REJECTED", "CANCELED", "BACKEND", "OTHER"}

// reason returns the index of an error's reason in reasons.
func reason(err error) int {
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.Unavailable:
		return 0
	case codes.Canceled, codes.DeadlineExceeded:
		return 1
	case codes.Internal:
		return 2
	}
	return 3
}
