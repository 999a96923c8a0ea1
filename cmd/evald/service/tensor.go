package service

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/short"
)

// The datatypes of the protocol, and how many bytes a value of each takes. A value of BYTES has its length before it.
const (
	uint8Type  = "UINT8"
	int32Type  = "INT32"
	uint64Type = "UINT64"
	floatType  = "FP32"
	bytesType  = "BYTES"
)

// tensor is an input or an output. Its values are little-endian and in row-major order. A value of BYTES follows its length,
// which takes four bytes.
type tensor struct {
	name     string
	datatype string
	shape    []int64
	raw      []byte
}

// values is how many values the shape has. More than max are an error.
func (t *tensor) values(max int) (int, error) {
	n := 1
	for _, d := range t.shape {
		if d < 0 {
			return 0, invalid("input %q: shape %v: sizes must not be negative", t.name, t.shape)
		}
		if d > int64(max) || n*int(d) > max {
			return 0, invalid("input %q: shape %v has more than %d values", t.name, t.shape, max)
		}
		n *= int(d)
	}
	return n, nil
}

// fromContents makes raw of the values in a typed list, as gRPC has them beside raw_input_contents.
func (t *tensor) fromContents(c *kserve.InferTensorContents) error {
	if c == nil {
		return invalid("input %q: neither contents nor raw_input_contents", t.name)
	}
	n, err := t.values(math.MaxInt32)
	if err != nil {
		return err
	}
	have := 0
	switch t.datatype {
	case floatType:
		if have = len(c.Fp32Contents); have == n {
			t.raw = appendFloats(make([]byte, 0, 4*n), c.Fp32Contents)
		}
	case uint64Type:
		if have = len(c.Uint64Contents); have == n {
			t.raw = make([]byte, 0, 8*n)
			for _, x := range c.Uint64Contents {
				t.raw = binary.LittleEndian.AppendUint64(t.raw, x)
			}
		}
	case bytesType:
		if have = len(c.BytesContents); have == n {
			for _, x := range c.BytesContents {
				t.raw = appendBytes(t.raw, x)
			}
		}
	default:
		return nil // rows will name the datatype that it wants
	}
	if have != n {
		return invalid("input %q: %d values of %s for shape %v, want %d", t.name, have, t.datatype, t.shape, n)
	}
	return nil
}

func appendFloats(to []byte, values []float32) []byte {
	n := len(to)
	to = slices.Grow(to, 4*len(values))[:n+4*len(values)]
	for i, x := range values {
		binary.LittleEndian.PutUint32(to[n+4*i:], math.Float32bits(x))
	}
	return to
}

func appendBytes[T string | []byte](to []byte, value T) []byte {
	return append(binary.LittleEndian.AppendUint32(to, uint32(len(value))), value...)
}

// cutBytes cuts the first value off raw values of BYTES.
func cutBytes(raw []byte) (value, rest []byte, ok bool) {
	if len(raw) < 4 {
		return nil, nil, false
	}
	n := uint64(binary.LittleEndian.Uint32(raw))
	if n > uint64(len(raw)-4) {
		return nil, nil, false
	}
	return raw[4 : 4+n], raw[4+n:], true
}

// clip shortens a text from outside for an error.
func clip(s string) string { return short.Text(s) }
