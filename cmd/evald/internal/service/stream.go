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

// ModelStreamInfer answers the requests of a stream in their order, several under way at once. A request that fails has
// its error in its answer, and the stream goes on. When the server ends, those it has read are answered.
func (s grpcService) ModelStreamInfer(stream grpc.BidiStreamingServer[kserve.ModelInferRequest, kserve.ModelStreamInferResponse]) error {
	ctx := stream.Context()
	answers := make(chan chan *kserve.ModelStreamInferResponse, streamDepth)
	requests := make(chan *kserve.ModelInferRequest)
	var readErr error
	go func() { // ends when the call does, since that ends Recv
		defer close(requests)
		for {
			r, err := stream.Recv()
			if err != nil {
				readErr = err
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
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
					answer := make(chan *kserve.ModelStreamInferResponse, 1)
					go func() { answer <- s.streamAnswer(stream, r) }()
					select {
					case answers <- answer:
					case <-ctx.Done():
						<-answer
						return ctx.Err()
					}
				}
			}
		}()
	}()
	var sendErr error
	for answer := range answers {
		a := <-answer
		if sendErr == nil {
			sendErr = stream.Send(a)
		}
	}
	return errors.Join(sendErr, <-ended)
}

func (s grpcService) streamAnswer(stream grpc.ServerStream, r *kserve.ModelInferRequest) *kserve.ModelStreamInferResponse {
	e := &logEntry{protocol: "gRPC stream", method: kserve.GRPCInferenceService_ModelStreamInfer_FullMethodName, began: time.Now()}
	all := entryOf(stream.Context())
	e.remote, e.token = all.remote, all.token
	e.asks(r)
	response, err := s.ModelInfer(e.context(stream.Context()), r)
	s.loggedGRPC(e, err)
	if err != nil {
		return &kserve.ModelStreamInferResponse{
			ErrorMessage:  status.Convert(err).Message(),
			InferResponse: &kserve.ModelInferResponse{ModelName: r.ModelName, Id: r.Id},
		}
	}
	return &kserve.ModelStreamInferResponse{InferResponse: response}
}
