package service

import (
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
)

// streamDepth is how many requests of one stream are under way at once.
const streamDepth = 64

// ModelStreamInfer answers the requests of a stream in their order, with several under way at once. If a request fails, its
// answer has the error, and the stream goes on. When the server ends, it still answers the requests that it has read.
func (s grpcService) ModelStreamInfer(stream grpc.BidiStreamingServer[kserve.ModelInferRequest, kserve.ModelStreamInferResponse]) error {
	ctx := stream.Context()
	answers := make(chan chan *streamRequest, streamDepth)
	requests := make(chan *streamRequest)
	var readErr error
	go func() { // it ends with the call, which ends Recv
		defer close(requests)
		for {
			r, err := s.streamRequest(stream)
			if err != nil {
				readErr = err
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				r.entry.paid.end()
				readErr = ctx.Err()
				return
			}
		}
	}()
	ended := make(chan error, 1)
	go func() {
		ended <- func() error {
			defer close(answers)
			for {
				select {
				case <-s.ended:
					return errDraining
				case r, more := <-requests:
					if !more {
						if errors.Is(readErr, io.EOF) {
							return nil
						}
						return readErr
					}
					answer := make(chan *streamRequest, 1)
					go func() {
						s.streamAnswer(stream, r)
						answer <- r
					}()
					select {
					case answers <- answer:
					case <-ctx.Done():
						(<-answer).entry.paid.end()
						return ctx.Err()
					}
				}
			}
		}()
	}()
	var sendErr error
	for answer := range answers {
		r := <-answer
		if sendErr == nil {
			sendErr = stream.Send(r.response)
		}
		r.entry.answer.release()
		r.entry.paid.end()
	}
	return errors.Join(sendErr, <-ended)
}

// streamRequest is one request of a stream. It holds its memory until the connection has its answer.
type streamRequest struct {
	entry    *logEntry
	request  *kserve.ModelInferRequest
	err      error // why it could not be read
	response *kserve.ModelStreamInferResponse
}

// streamRequest reads the next request. An error ends the stream.
func (s grpcService) streamRequest(stream grpc.ServerStream) (*streamRequest, error) {
	var f frame
	if err := stream.RecvMsg(&f); err != nil {
		return nil, err
	}
	defer f.free()
	all := entryOf(stream.Context())
	e := &logEntry{protocol: "gRPC stream", method: kserve.GRPCInferenceService_ModelStreamInfer_FullMethodName, began: time.Now()}
	e.remote, e.token, e.group, e.account = all.remote, all.token, all.group, all.account
	e.paid = s.memory.hold(e.account.from)
	r := &streamRequest{entry: e, request: new(kserve.ModelInferRequest)}
	r.err = s.decode(&f, r.request, e.paid)
	e.asks(r.request)
	return r, nil
}

func (s grpcService) streamAnswer(stream grpc.ServerStream, r *streamRequest) {
	response, err := (*kserve.ModelInferResponse)(nil), r.err
	if err == nil {
		response, err = s.ModelInfer(r.entry.context(stream.Context()), r.request)
	}
	s.loggedGRPC(r.entry, err)
	r.response = &kserve.ModelStreamInferResponse{InferResponse: response}
	if err != nil {
		r.response = &kserve.ModelStreamInferResponse{
			ErrorMessage:  status.Convert(err).Message(),
			InferResponse: &kserve.ModelInferResponse{ModelName: r.request.ModelName, Id: r.request.Id},
		}
	}
}
