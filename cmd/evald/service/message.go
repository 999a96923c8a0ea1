package service

import (
	"compress/gzip"
	"compress/zlib"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/evald/evald/cmd/evald/kserve"
)

// callCost is the memory of a gRPC call in bytes: the flow-control window of its stream, its goroutine, and a decoded message.
const callCost = streamWindow + 16<<10 + usualMessage

// usualMessage is the memory of a decoded message that a call reserves in advance, in bytes. 256 positions fit.
const usualMessage = 8 << 10

// streamWindow is the number of bytes of a message that a client may send before the message is read.
const streamWindow = 64 << 10

// messageCost returns the memory of the longest message while it is read, in bytes: compressed and decompressed.
func (s *Server) messageCost() int { return 2 * s.config.Limits.Body }

// gunzip decompresses messages up to one byte more than limit, so that gRPC refuses longer ones. It yields to other goroutines meanwhile.
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

// deflate reads messages in gRPC's other usual encoding, which has zlib's format. gRPC reads at most one byte more than its limit, and
// knows encodings besides gzip only for the whole program. Answers are not compressed.
type deflate struct{}

func init() { encoding.RegisterCompressor(deflate{}) }

// Name implements encoding.Compressor.
func (deflate) Name() string { return "deflate" }

// Compress implements encoding.Compressor, for clients in the same program.
func (deflate) Compress(out io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(out), nil }

// Decompress implements encoding.Compressor.
func (deflate) Decompress(in io.Reader) (io.Reader, error) {
	z, err := zlib.NewReader(in)
	if err != nil {
		return nil, err
	}
	return &polite{in: z}, nil
}

// frame is a message that is not decoded yet.
type frame struct{ data mem.Buffer }

func (f *frame) free() {
	if f.data != nil {
		f.data.Free()
		f.data = nil
	}
}

// outgoing is the answer to a request. The codec counts its bytes until they are written.
type outgoing struct {
	message any
	request *request
}

// codec is protobuf's codec, except that it does not decode frames, and counts the bytes of outgoing answers.
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
	const pooled = 1<<10 + 1         // gRPC does not return smaller buffers to their pool
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

// answerCost is the memory of an unwritten answer besides its bytes, in bytes.
const answerCost = 2 << 10

// written is the pool of one answer's buffer. gRPC returns the buffer to it when the answer was written, or when it will never be.
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

// decode reserves memory for the decoded message, as far as the call has none for it, and decodes f into it.
func (s *Server) decode(f *frame, message any, r *request) error {
	text, m := f.data.ReadOnlyData(), message.(proto.Message)
	if _, ok := m.(*kserve.ModelInferRequest); !ok && len(text) > smallBody {
		return refuse(codes.ResourceExhausted, "the message has %d bytes, must be at most %d", len(text), smallBody)
	}
	left := s.config.Limits.Batch + mostParts
	cost, err := decodedCost(m.ProtoReflect().Descriptor(), text, &left)
	if left < 0 {
		return invalid("the message has more than %d parts: inputs, outputs, parameters, texts", s.config.Limits.Batch+mostParts)
	}
	if err == nil {
		err = r.take(cost - r.advance)
	}
	if err == nil {
		err = proto.Unmarshal(text, m)
	}
	if err != nil && status.Code(err) == codes.Unknown {
		err = invalid("the message cannot be read: %s", err.Error())
	}
	return err
}

// mostParts is the maximum number of a message's parts besides the texts of its rows.
const mostParts = 512

// decodedCost returns an upper bound on the memory of a decoded message, in bytes, so that a short message cannot decode to a large one
// unnoticed. It subtracts the message's parts from left, and stops when left is negative.
func decodedCost(of protoreflect.MessageDescriptor, b []byte, left *int) (cost int, err error) {
	for cost = 512; len(b) > 0 && *left >= 0; {
		n, kind, k := protowire.ConsumeTag(b)
		if k < 0 {
			return 0, protowire.ParseError(k)
		}
		b = b[k:]
		if k = protowire.ConsumeFieldValue(n, kind, b); k < 0 {
			return 0, protowire.ParseError(k)
		}
		v := b[:k]
		b = b[k:]
		f := of.Fields().ByNumber(n)
		if f == nil || kind == protowire.BytesType {
			*left--
		}
		switch {
		case f == nil: // the decoder keeps unknown fields as bytes
			cost += 16 + 2*k
		case kind == protowire.BytesType && f.Message() != nil:
			v, _ = protowire.ConsumeBytes(v)
			inner, err := decodedCost(f.Message(), v, left)
			if err != nil {
				return 0, err
			}
			cost += inner
		case kind == protowire.BytesType && f.IsPacked(): // a number may take one byte encoded and eight decoded
			cost += 8 * k
		default:
			cost += 48 + k
		}
	}
	return cost, nil
}
