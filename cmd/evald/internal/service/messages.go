package service

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/evald/evald/cmd/evald/kserve"
)

// How messages of gRPC are paid for. What is not read yet is bounded by the window of its stream. A message is read whole, in
// a slot that has room for the longest one; then it is paid for as it is, and looked over before it is decoded. An answer is
// counted until it has been written to the connection, which its client may put off.

// callCost is what a call holds whatever it asks for: its stream's window and goroutine.
const callCost = streamWindow + 16<<10

// streamWindow is how many bytes of a message are taken from a client before it is read.
const streamWindow = 64 << 10

// frame is a message as it came, not decoded.
type frame struct{ data mem.Buffer }

func (f *frame) free() {
	if f.data != nil {
		f.data.Free()
		f.data = nil
	}
}

// outgoing is an answer whose bytes are counted until they are written.
type outgoing struct {
	message any
	to      *account
}

// account is whom answers on their way are counted for.
type account struct {
	budget *budget
	from   string
	conn   *connection // nil where it is not known
}

// sends is called when an answer of n bytes is to be written.
func (a *account) sends(n int) {
	if a.conn.sends(n) {
		a.budget.force(a.from, n)
	}
}

// sent is called when it was.
func (a *account) sent(n int) {
	if a.conn.sent(n) {
		a.budget.force(a.from, -n)
	}
}

// codec is protobuf, but for what is counted.
type codec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		f.data = data.MaterializeToBuffer(mem.DefaultBufferPool())
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	out, ok := v.(outgoing)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	m, ok := out.message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("an answer is no message but a %T", out.message)
	}
	const pooled = 1<<10 + 1 // below that a buffer's end is not told
	b := mem.DefaultBufferPool().Get(max(proto.Size(m), pooled))
	text, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*b)[:0], m)
	if err != nil {
		mem.DefaultBufferPool().Put(b)
		return nil, err
	}
	*b = text
	w := &written{out.to, cap(text) + answerCost}
	w.to.sends(w.bytes)
	return mem.BufferSlice{mem.NewBuffer(b, w)}, nil
}

// answerCost is what an answer on its way takes beside its bytes.
const answerCost = 2 << 10

// written is the pool of one answer's buffer, which gets it back when it is written, or never will be.
type written struct {
	to    *account
	bytes int
}

// Get implements mem.BufferPool; nobody calls it.
func (w *written) Get(n int) *[]byte { return mem.DefaultBufferPool().Get(n) }

// Put implements mem.BufferPool.
func (w *written) Put(b *[]byte) {
	w.to.sent(w.bytes)
	mem.DefaultBufferPool().Put(b)
}

// decode makes a message of a frame. It is refused, before memory is taken, if it has more than a request may have.
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

// census looks over an inference request in the form in which it was sent, and counts what it has and what it will take.
type census struct {
	rows                                     int // that a request may have
	bytes                                    int // that it takes, decoded
	inputs, outputs, parameters, raw, values int
}

// longestText is how long a name, a parameter or an id of a request may be, in bytes.
const longestText = 4 << 10

// fields calls f for each field of a message; v is the value of one that has a length, else nil.
func fields(b []byte, f func(n protowire.Number, v []byte) error) error {
	for len(b) > 0 {
		n, kind, k := protowire.ConsumeTag(b)
		if k < 0 {
			return invalid("the message cannot be read: %s", protowire.ParseError(k).Error())
		}
		b = b[k:]
		var v []byte
		if kind == protowire.BytesType {
			v, k = protowire.ConsumeBytes(b)
			if v == nil {
				v = []byte{}
			}
		} else {
			k = protowire.ConsumeFieldValue(n, kind, b)
		}
		if k < 0 {
			return invalid("the message cannot be read: %s", protowire.ParseError(k).Error())
		}
		b = b[k:]
		if err := f(n, v); err != nil {
			return err
		}
	}
	return nil
}

// add counts one more of something, of which a request may have so many, and the bytes that it takes.
func (c *census) add(what string, count *int, most, bytes int) error {
	if *count++; *count > most {
		return invalid("more than %d %s", most, what)
	}
	c.bytes += bytes
	return nil
}

func (c *census) text(what string, v []byte) error {
	if len(v) > longestText {
		return invalid("%s has %d bytes, must be at most %d", what, len(v), longestText)
	}
	c.bytes += len(v)
	return nil
}

func (c *census) request(b []byte) error {
	c.bytes += 512
	return fields(b, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			return c.text("model_name", v)
		case 2:
			return c.text("model_version", v)
		case 3:
			return c.text("id", v)
		case 4:
			return c.parameter(v)
		case 5:
			if err := c.add("inputs", &c.inputs, mostInputs, 256); err != nil {
				return err
			}
			return c.tensor(v, true)
		case 6:
			if err := c.add("outputs", &c.outputs, mostOutputs, 256); err != nil {
				return err
			}
			return c.tensor(v, false)
		case 7:
			return c.add("raw_input_contents", &c.raw, mostInputs, 32+len(v))
		}
		return c.unknown(v)
	})
}

// tensor counts an input, or an output that is asked for.
func (c *census) tensor(b []byte, input bool) error {
	dimensions := 0
	return fields(b, func(n protowire.Number, v []byte) error {
		switch {
		case n == 1:
			return c.text("a tensor's name", v)
		case n == 2 && input:
			return c.text("a datatype", v)
		case n == 4 || n == 2:
			return c.parameter(v)
		case n == 3 && input:
			// Packed or not, a dimension takes a byte or more.
			if dimensions += max(len(v), 1); dimensions > 10*mostDimensions {
				return invalid("a shape has more than %d dimensions", mostDimensions)
			}
			c.bytes += 16 * max(len(v), 1)
			return nil
		case n == 5 && input:
			return c.contents(v)
		}
		return c.unknown(v)
	})
}

func (c *census) parameter(b []byte) error {
	if err := c.add("parameters", &c.parameters, mostParameters, 256); err != nil {
		return err
	}
	return c.text("a parameter", b)
}

// contents counts values in typed lists: those of texts one by one, numbers by what a packed list of the smallest of them
// becomes.
func (c *census) contents(b []byte) error {
	return fields(b, func(n protowire.Number, v []byte) error {
		switch {
		case n == 8: // bytes_contents
			return c.add("values of bytes_contents", &c.values, c.rows, 48+len(v))
		case n < 8 && v != nil:
			c.bytes += 8 * len(v)
		case n < 8:
			c.bytes += 16
		default:
			return c.unknown(v)
		}
		return nil
	})
}

// unknown counts a field that the protocol has not, which is kept as it is.
func (c *census) unknown(v []byte) error {
	c.bytes += 16 + 2*len(v)
	return nil
}

// grpcCalls registers services whose calls are counted and logged. Interceptors would not hear of messages that are too
// long, and a stats.Handler makes each call a tenth dearer.
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
		if err := grpc.SetSendCompressor(ctx, encoding.Identity); err != nil { // what is counted is what is sent
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
		return outgoing{answer, &e.account}, nil
	}
}

// receive reads a message in a slot.
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

// streaming answers a call of many messages. One whose client sends many has room for the longest all the time.
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

// messageCost is what the longest message takes while it is read: as it comes, and decompressed.
func (s *Server) messageCost() int { return 2 * s.config.Limits.Body }

// countedStream is a stream whose messages are paid for.
type countedStream struct {
	grpc.ServerStream
	server *Server
	entry  *logEntry
	many   bool
}

// RecvMsg implements grpc.ServerStream. A frame is left to the caller to decode.
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
	defer paid.end() // reflection's, which is small
	return c.server.decode(&f, message, paid)
}

// SendMsg implements grpc.ServerStream.
func (c *countedStream) SendMsg(message any) error {
	c.server.knows(c.entry)
	return c.ServerStream.SendMsg(outgoing{message, &c.entry.account})
}

// writeTime is how long a client may leave an answer unread.
func (s *Server) writeTime() time.Duration {
	return 2*s.config.Limits.Receive + s.config.Limits.Timeout
}
