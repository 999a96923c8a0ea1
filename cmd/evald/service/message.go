package service

import (
	"compress/gzip"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/evald/evald/cmd/evald/kserve"
)

// callCost is what each call holds, in bytes: the window of its stream, and its goroutine.
const callCost = streamWindow + 16<<10

// streamWindow is how many bytes of a message a client may send before the message is read.
const streamWindow = 64 << 10

// messageCost is how many bytes the longest message takes while it is read: compressed and decompressed.
func (s *Server) messageCost() int { return 2 * s.config.Limits.Body }

// gunzip decompresses the messages of one server, up to one byte more than limit, and lets other goroutines run meanwhile.
type gunzip struct{ limit int }

var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

func (gunzip) Type() string { return "gzip" }

func (g gunzip) Do(in io.Reader) ([]byte, error) {
	z := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(z)
	if err := z.Reset(in); err != nil {
		return nil, err
	}
	text, err := mem.ReadAll(io.LimitReader(&polite{in: z}, int64(g.limit)+1), mem.DefaultBufferPool())
	defer text.Free()
	return text.Materialize(), err
}

// frame is a message as it came, not decoded.
type frame struct{ data mem.Buffer }

func (f *frame) free() {
	if f.data != nil {
		f.data.Free()
		f.data = nil
	}
}

// outgoing is the answer to a request. Its bytes are counted until they are written.
type outgoing struct {
	message any
	request *request
}

// codec is protobuf's, except that frames stay undecoded and outgoing answers are counted.
type codec struct{ encoding.CodecV2 }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		f.data = data.MaterializeToBuffer(mem.DefaultBufferPool())
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	out, ok := v.(outgoing)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	m := out.message.(proto.Message) // as all of gRPC's messages are
	const pooled = 1<<10 + 1         // gRPC does not give smaller buffers back to their pool
	b := mem.DefaultBufferPool().Get(max(proto.Size(m), pooled))
	text, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*b)[:0], m)
	if err != nil {
		mem.DefaultBufferPool().Put(b)
		return nil, err
	}
	out.request.answer.release()
	*b = text
	w := &written{out.request.conn, cap(text) + answerCost}
	w.conn.unread(w.bytes)
	return mem.BufferSlice{mem.NewBuffer(b, w)}, nil
}

// answerCost is what an answer on its way takes beside its bytes.
const answerCost = 2 << 10

// written is the pool of one answer's buffer. gRPC gives the buffer back after it was written, or when it never will be.
type written struct {
	conn  *connection
	bytes int
}

// Get implements mem.BufferPool; gRPC does not call it.
func (w *written) Get(n int) *[]byte { return mem.DefaultBufferPool().Get(n) }

func (w *written) Put(b *[]byte) {
	w.conn.unread(-w.bytes)
	mem.DefaultBufferPool().Put(b)
}

// decode decodes a frame. A message that has more than a request may have is refused before any memory is used for it.
func (s *Server) decode(f *frame, message any, r *request) error {
	text, m := f.data.ReadOnlyData(), message.(proto.Message)
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
	if err := r.take(cost); err != nil {
		return err
	}
	if err := proto.Unmarshal(text, m); err != nil {
		return invalid("the message cannot be read: %s", err.Error())
	}
	return nil
}

// census reads an inference request in the form in which it was sent. It counts the parts of the request, and the bytes that
// they will take when they are decoded.
type census struct {
	rows                                     int // that a request may have at most
	bytes                                    int // that the request takes when it is decoded
	inputs, outputs, parameters, raw, values int
}

// longestText is how long a name, a parameter or an id of a request may be, in bytes.
const longestText = 4 << 10

// fields calls f for each field of a message. v is the value of a field that has a length, else nil.
func fields(b []byte, f func(n protowire.Number, v []byte) error) error {
	for len(b) > 0 {
		n, kind, k := protowire.ConsumeTag(b)
		var v []byte
		if k >= 0 {
			b = b[k:]
			if kind == protowire.BytesType {
				v, k = protowire.ConsumeBytes(b)
			} else {
				k = protowire.ConsumeFieldValue(n, kind, b)
			}
		}
		if k < 0 {
			return invalid("the message cannot be read: %s", protowire.ParseError(k))
		}
		b = b[k:]
		if err := f(n, v); err != nil {
			return err
		}
	}
	return nil
}

// add counts one more part, and the bytes that it takes. A request that has more than most of them is refused.
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
			// A dimension takes a byte or more, packed or not.
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

// contents counts values in typed lists. Texts are counted one by one. Each byte of a packed list of numbers counts as a
// number of eight bytes, which is the most that it can become.
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

// unknown counts a field that the protocol does not have. The decoder keeps it as it is.
func (c *census) unknown(v []byte) error {
	c.bytes += 16 + 2*len(v)
	return nil
}
