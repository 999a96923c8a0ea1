package service

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
)

// streamDepth is the maximum number of concurrent requests of one stream.
const streamDepth = 64

// ModelStreamInfer answers the requests of a stream, each as soon as it is done, in any order; an answer has its request's id. If
// a request fails, its answer has the error, and the stream continues. With the parameter "progress" a search has several answers;
// triton_final_response marks the last. When the server ends, it still answers the requests that it has read.
func (s grpcService) ModelStreamInfer(stream grpc.BidiStreamingServer[kserve.ModelInferRequest, kserve.ModelStreamInferResponse]) error {
	var mu sync.Mutex // guards ending, and Send
	ending := false
	send := func(response *kserve.ModelStreamInferResponse) error {
		mu.Lock()
		defer mu.Unlock()
		return stream.Send(response)
	}
	var answers sync.WaitGroup
	read := make(chan error, 1)
	go func() { // it ends with the call, which ends Recv
		depth := make(chan struct{}, streamDepth)
		for {
			depth <- struct{}{}
			r, message, err := s.streamRequest(stream)
			if r == nil {
				read <- err
				return
			}
			mu.Lock()
			if ending {
				mu.Unlock()
				r.end()
				return
			}
			answers.Add(1)
			mu.Unlock()
			go func() {
				s.streamAnswer(stream.Context(), r, message, err, send)
				<-depth
				answers.Done()
			}()
		}
	}()
	var err error
	select {
	case err = <-read:
		if errors.Is(err, io.EOF) {
			err = nil
		}
	case <-s.taking.Done():
		err = errDraining
	}
	mu.Lock()
	ending = true
	mu.Unlock()
	answers.Wait()
	return err
}

// streamRequest reads the next request. If there is a request, err says why it cannot be answered; otherwise it ends the stream.
func (s grpcService) streamRequest(stream grpc.ServerStream) (*request, *kserve.ModelInferRequest, error) {
	var f frame
	if err := stream.RecvMsg(&f); err != nil {
		return nil, nil, err
	}
	defer f.free()
	all := requestOf(stream.Context())
	r := &request{
		conn: all.conn, protocol: "gRPC stream", method: all.method, remote: all.remote, began: time.Now(), group: all.group, token: all.token, shown: all.shown,
	}
	message := new(kserve.ModelInferRequest)
	err := s.decode(&f, message, r)
	r.describe(message)
	return r, message, err
}

// streamAnswer sends the answer to a request, or its error err. The request keeps its memory until the connection has the answer.
func (s grpcService) streamAnswer(
	ctx context.Context, r *request, message *kserve.ModelInferRequest, err error, send func(*kserve.ModelStreamInferResponse) error,
) {
	defer r.end()
	part := func(m *kserve.ModelInferResponse, last bool) *kserve.ModelStreamInferResponse {
		m.Parameters = map[string]*kserve.InferParameter{finalParameter: {ParameterChoice: &kserve.InferParameter_BoolParam{BoolParam: last}}}
		return &kserve.ModelStreamInferResponse{InferResponse: m}
	}
	r.report = func() error { return send(part(r.message(), false)) }
	response := &kserve.ModelStreamInferResponse{}
	if err == nil {
		response.InferResponse, err = s.ModelInfer(r.context(ctx), message)
	}
	s.loggedGRPC(r, err)
	switch {
	case err != nil:
		response.ErrorMessage = status.Convert(err).Message()
		response.InferResponse = &kserve.ModelInferResponse{ModelName: r.model, Id: r.id}
	case r.progress:
		response = part(response.InferResponse, true)
	}
	_ = send(response) // the client may be gone
	r.answer.release()
}

// finalParameter says whether an answer to a request is its last one, as Triton names it.
const finalParameter = "triton_final_response"

// streaming answers a call of many messages. A stream on which the client sends many has room for the longest message all the
// time.
func (s *Server) streaming(next grpc.StreamHandler, many bool) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) (err error) {
		r := requestOf(stream.Context())
		defer func() { s.ended(r, err) }()
		if r.group != healthCalls {
			defer r.conn.begin()()
		}
		cost := callCost
		if many {
			cost += s.messageCost()
		}
		if err := r.accept(stream.Context(), cost); err != nil {
			return err
		}
		return next(srv, &countedStream{stream, s, r, many})
	}
}

// countedStream is a stream whose messages are paid for.
type countedStream struct {
	grpc.ServerStream
	server  *Server
	request *request
	many    bool
}

// RecvMsg implements grpc.ServerStream.
func (c *countedStream) RecvMsg(message any) error {
	if c.many {
		return c.ServerStream.RecvMsg(message)
	}
	return c.server.receive(c.Context(), c.request, c.ServerStream.RecvMsg, message)
}

func (c *countedStream) SendMsg(message any) error {
	c.server.knows(c.request)
	return c.ServerStream.SendMsg(outgoing{message, c.request})
}
