package service

import (
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
)

// streamDepth is how many requests of one stream are under way at once.
const streamDepth = 64

// ModelStreamInfer answers the requests of a stream in their order, with several under way at once. If a request fails, its
// answer has the error, and the stream continues. When the server ends, it still answers the requests that it has read.
func (s grpcService) ModelStreamInfer(stream grpc.BidiStreamingServer[kserve.ModelInferRequest, kserve.ModelStreamInferResponse]) error {
	requests := make(chan *streamRequest, streamDepth)
	var readErr error
	go func() { // it ends with the call, which ends Recv
		defer close(requests)
		for {
			r, err := s.streamRequest(stream)
			if err != nil {
				readErr = err
				return
			}
			go func() {
				s.streamAnswer(stream, r)
				close(r.answered)
			}()
			requests <- r
		}
	}()
	defer func() {
		go func() { // what is left if the client or the server has ended
			for r := range requests {
				r.release()
			}
		}()
	}()
	send := func(r *streamRequest) error {
		defer r.release()
		<-r.answered
		return stream.Send(r.response)
	}
	for {
		select {
		case r, more := <-requests:
			if !more {
				if errors.Is(readErr, io.EOF) {
					return nil
				}
				return readErr
			}
			if err := send(r); err != nil {
				return err
			}
		case <-s.taking.Done():
			for n := len(requests); n > 0; n-- {
				if err := send(<-requests); err != nil {
					return err
				}
			}
			return errDraining
		}
	}
}

// streamRequest is one request of a stream. It holds its memory until the connection has its answer.
type streamRequest struct {
	request
	message  *kserve.ModelInferRequest
	err      error // why it could not be read
	answered chan struct{}
	response *kserve.ModelStreamInferResponse
}

// release gives all back that the request holds, once it is answered.
func (r *streamRequest) release() {
	<-r.answered
	r.answer.release()
	r.end()
}

// streamRequest reads the next request. An error ends the stream.
func (s grpcService) streamRequest(stream grpc.ServerStream) (*streamRequest, error) {
	var f frame
	if err := stream.RecvMsg(&f); err != nil {
		return nil, err
	}
	defer f.free()
	all := requestOf(stream.Context())
	r := &streamRequest{message: new(kserve.ModelInferRequest), answered: make(chan struct{}), request: request{
		conn: all.conn, protocol: "gRPC stream", method: all.method, remote: all.remote, began: time.Now(), group: all.group, token: all.token, shown: all.shown,
	}}
	r.err = s.decode(&f, r.message, &r.request)
	r.describe(r.message)
	return r, nil
}

func (s grpcService) streamAnswer(stream grpc.ServerStream, r *streamRequest) {
	response, err := (*kserve.ModelInferResponse)(nil), r.err
	if err == nil {
		response, err = s.ModelInfer(r.context(stream.Context()), r.message)
	}
	s.loggedGRPC(&r.request, err)
	r.response = &kserve.ModelStreamInferResponse{InferResponse: response}
	if err != nil {
		r.response = &kserve.ModelStreamInferResponse{
			ErrorMessage:  status.Convert(err).Message(),
			InferResponse: &kserve.ModelInferResponse{ModelName: r.model, Id: r.id},
		}
	}
}

// streaming answers a call of many messages. A stream on which the client sends many has room for the longest message all the
// time.
func (s *Server) streaming(next grpc.StreamHandler, many bool) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) (err error) {
		r := requestOf(stream.Context())
		defer r.end()
		defer func() { s.loggedGRPC(r, err) }()
		if r.group != healthCalls {
			defer r.conn.begin()()
		}
		cost := callCost
		if many {
			cost += s.messageCost()
		}
		if err := r.take(cost); err != nil {
			return err
		}
		if err := grpc.SetSendCompressor(stream.Context(), encoding.Identity); err != nil {
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

// RecvMsg implements grpc.ServerStream. The caller decodes a frame.
func (c *countedStream) RecvMsg(message any) error {
	if f, ok := message.(*frame); ok {
		return c.ServerStream.RecvMsg(f)
	}
	if !c.many {
		return c.server.receive(c.Context(), c.request, c.ServerStream.RecvMsg, message)
	}
	var f frame
	if err := c.ServerStream.RecvMsg(&f); err != nil {
		return err
	}
	defer f.free()
	held := request{conn: c.request.conn}
	defer held.end() // the message is reflection's, which is small
	return c.server.decode(&f, message, &held)
}

func (c *countedStream) SendMsg(message any) error {
	c.server.knows(c.request)
	return c.ServerStream.SendMsg(outgoing{message, c.request})
}
