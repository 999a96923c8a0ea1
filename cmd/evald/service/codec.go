package service

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

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
	encoded func() // is called when the message is not needed any more, unless nil
}

// account says for whom answers on their way are counted.
type account struct {
	budget *budget
	from   string
	conn   *connection // nil if it is not known
}

// sends is called before an answer of n bytes is written.
func (a *account) sends(n int) {
	if a.conn.sends(n) {
		a.budget.force(a.from, n)
	}
}

// sent is called after it was written.
func (a *account) sent(n int) {
	if a.conn.sent(n) {
		a.budget.force(a.from, -n)
	}
}

// codec is protobuf's, except that frames stay undecoded and outgoing answers are counted.
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
	const pooled = 1<<10 + 1 // gRPC does not give smaller buffers back to their pool
	b := mem.DefaultBufferPool().Get(max(proto.Size(m), pooled))
	text, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*b)[:0], m)
	if err != nil {
		mem.DefaultBufferPool().Put(b)
		return nil, err
	}
	if out.encoded != nil {
		out.encoded()
	}
	*b = text
	w := &written{out.to, cap(text) + answerCost}
	w.to.sends(w.bytes)
	return mem.BufferSlice{mem.NewBuffer(b, w)}, nil
}

// answerCost is what an answer on its way takes beside its bytes.
const answerCost = 2 << 10

// written is the pool of one answer's buffer. gRPC gives the buffer back after it was written, or when it never will be.
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
