package service

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/evald/evald/cmd/evald/kserve"
)

// This file takes the memory of gRPC messages from the budget. The window of its stream bounds the part of a message that is
// not read yet. A message is read whole, in a slot that has room for the longest one. Then its own bytes are taken from the
// budget, and its fields are counted before it is decoded. An answer is counted until it was written to the connection, which
// its client can delay.

// callCost is what each call holds, in bytes: the window of its stream, and its goroutine.
const callCost = streamWindow + 16<<10

// streamWindow is how many bytes of a message a client may send before the message is read.
const streamWindow = 64 << 10

// decode decodes a frame. A message that has more than a request may have is refused before any memory is used for it.
func (s *Server) decode(f *frame, message any, paid *hold) error {
	text := f.data.ReadOnlyData()
	m, ok := message.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "a request is no message but a %T", message)
	}
	cost := 2 * len(text)
	if _, ok := m.(*kserve.ModelInferRequest); ok {
		c := census{rows: s.config.Limits.Batch}
		if err := c.request(text); err != nil {
			return err
		}
		cost = c.bytes
	} else if len(text) > smallBody {
		return refuse(codes.ResourceExhausted, "the message has %d bytes, must be at most %d", len(text), smallBody)
	}
	if err := paid.take(cost); err != nil {
		return err
	}
	if err := proto.Unmarshal(text, m); err != nil {
		return invalid("the message cannot be read: %s", err.Error())
	}
	return nil
}

// grpcCalls registers services whose calls are counted and logged. Interceptors do not hear of messages that are too long, and
// a stats.Handler makes each call cost a tenth more.
type grpcCalls struct {
	*grpc.Server
	service *Server
}

// RegisterService implements grpc.ServiceRegistrar.
func (g grpcCalls) RegisterService(desc *grpc.ServiceDesc, impl any) {
	counted := *desc
	counted.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, method := range desc.Methods {
		counted.Methods[i] = grpc.MethodDesc{MethodName: method.MethodName, Handler: g.service.unary(method.Handler)}
	}
	counted.Streams = make([]grpc.StreamDesc, len(desc.Streams))
	for i, stream := range desc.Streams {
		counted.Streams[i] = stream
		counted.Streams[i].Handler = g.service.streaming(stream.Handler, stream.ClientStreams)
	}
	g.Server.RegisterService(&counted, impl)
}

// unary answers a call of one message.
func (s *Server) unary(next grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, read func(any) error, i grpc.UnaryServerInterceptor) (answer any, err error) {
		e := entryOf(ctx)
		e.paid = s.memory.hold(e.account.from)
		defer e.paid.end()
		defer func() { s.loggedGRPC(e, err) }()
		if err := e.paid.take(callCost); err != nil {
			return nil, err
		}
		if err := grpc.SetSendCompressor(ctx, encoding.Identity); err != nil { // so that the bytes counted are the bytes sent
			return nil, err
		}
		end := func() {}
		defer func() { end() }()
		answer, err = next(srv, ctx, func(message any) error {
			err := s.receive(ctx, e, read, message)
			e.asks(message)
			end = e.account.conn.begin()
			return err
		}, i)
		if err != nil {
			return nil, err
		}
		s.knows(e)
		return outgoing{answer, &e.account, e.answer.release}, nil
	}
}

// receive reads a message while it holds a slot.
func (s *Server) receive(ctx context.Context, e *logEntry, read func(any) error, message any) error {
	slots := s.reading
	if e.group == healthCalls {
		slots = s.readingHealth
	}
	slot, err := slots.acquire(ctx, e.account.from, e.account.conn.isKnown(), e.cancel)
	if err != nil {
		return err
	}
	defer slots.release(slot)
	var f frame
	if err := read(&f); err != nil {
		return slot.why(err)
	}
	defer f.free()
	return s.decode(&f, message, e.paid)
}

// streaming answers a call of many messages. A stream on which the client sends many has room for the longest message all the
// time.
func (s *Server) streaming(next grpc.StreamHandler, many bool) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) (err error) {
		e := entryOf(stream.Context())
		e.paid = s.memory.hold(e.account.from)
		defer e.paid.end()
		defer func() { s.loggedGRPC(e, err) }()
		if e.group != healthCalls {
			defer e.account.conn.begin()()
		}
		cost := callCost
		if many {
			cost += s.messageCost()
		}
		if err := e.paid.take(cost); err != nil {
			return err
		}
		if err := grpc.SetSendCompressor(stream.Context(), encoding.Identity); err != nil {
			return err
		}
		return next(srv, &countedStream{stream, s, e, many})
	}
}

// messageCost is how many bytes the longest message takes while it is read: compressed and decompressed.
func (s *Server) messageCost() int { return 2 * s.config.Limits.Body }

// countedStream is a stream whose messages are paid for.
type countedStream struct {
	grpc.ServerStream
	server *Server
	entry  *logEntry
	many   bool
}

// RecvMsg implements grpc.ServerStream. The caller decodes a frame.
func (c *countedStream) RecvMsg(message any) error {
	if f, ok := message.(*frame); ok {
		return c.ServerStream.RecvMsg(f)
	}
	if !c.many {
		return c.server.receive(c.Context(), c.entry, c.ServerStream.RecvMsg, message)
	}
	var f frame
	if err := c.ServerStream.RecvMsg(&f); err != nil {
		return err
	}
	defer f.free()
	paid := c.server.memory.hold(c.entry.account.from)
	defer paid.end() // the message is reflection's, which is small
	return c.server.decode(&f, message, paid)
}

// SendMsg implements grpc.ServerStream.
func (c *countedStream) SendMsg(message any) error {
	c.server.knows(c.entry)
	return c.ServerStream.SendMsg(outgoing{message, &c.entry.account, nil})
}

// writeTime is how long a client may read nothing of an answer.
func (s *Server) writeTime() time.Duration {
	return 2*s.config.Limits.Receive + s.config.Limits.Timeout
}
