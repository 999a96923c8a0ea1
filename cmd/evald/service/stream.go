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

// ModelStreamInfer answers the requests of a stream, each as soon as it is done, in any order; an answer has its request's id. If a request
// fails, its answer contains the error, and the stream continues. With the parameter "progress" a search has several answers;
// triton_final_response marks the last one. When the server will shut down, or the connection is old, answers have the parameter end_stream:
// a client that then ends its stream and opens another one loses no request.
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
	go func() { // ends with the call, because Recv then returns an error
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

// streamRequest reads the next request. If the request is nil, the error ends the stream; otherwise the error is the answer to the request.
func (s grpcService) streamRequest(stream grpc.ServerStream) (*request, *kserve.ModelInferRequest, error) {
	var f frame
	if err := stream.RecvMsg(&f); err != nil {
		return nil, nil, err
	}
	defer f.free()
	all := requestOf(stream.Context())
	r := &request{
		conn: all.conn, protocol: "gRPC stream", method: all.method, remote: all.remote, forwarded: all.forwarded, began: time.Now(), group: all.group, token: all.token, shown: all.shown,
		tls: all.tls,
	}
	if s.access.Load() != all.access { // a stream may last longer than its token
		if err := s.allow(r, all.secret); err != nil {
			return nil, nil, err
		}
	}
	message := new(kserve.ModelInferRequest)
	err := s.decode(&f, message, r)
	r.describe(message)
	return r, message, err
}

// streamAnswer computes and sends the answer to a request, or sends err if it is not nil. The request keeps its memory until the answer is
// passed to the connection.
func (s grpcService) streamAnswer(
	ctx context.Context, r *request, message *kserve.ModelInferRequest, err error, send func(*kserve.ModelStreamInferResponse) error,
) {
	defer r.end()
	mark := func(m *kserve.ModelInferResponse, name string, value bool) {
		if m.Parameters == nil {
			m.Parameters = map[string]*kserve.InferParameter{}
		}
		m.Parameters[name] = &kserve.InferParameter{ParameterChoice: &kserve.InferParameter_BoolParam{BoolParam: value}}
	}
	r.report = func() error {
		part := r.message()
		mark(part, finalParameter, false)
		return send(&kserve.ModelStreamInferResponse{InferResponse: part})
	}
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
		mark(response.InferResponse, finalParameter, true)
	}
	if s.parts(r.conn) {
		mark(response.InferResponse, endParameter, true)
	}
	_ = send(response) // the client may be gone
	r.answer.release()
}

// ruleParameter is the parameter of an answer that says in words how it was searched.
const ruleParameter = "rule"

// finalParameter is Triton's parameter of an answer that says whether it is the last one to its request.
const finalParameter = "triton_final_response"

// endParameter is the parameter of an answer that asks the client to end its stream, and to send further requests over another one.
const endParameter = "end_stream"

// streaming wraps a method with streams of messages. If the client may send many messages, the call reserves memory for the longest message
// for its whole life.
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

// countedStream is a stream whose messages use reserved memory.
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
